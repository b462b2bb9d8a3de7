"""The keys by which a stack's machines are reached, on a machine that did not make them: they are secrets of the state.

Another machine may have renewed them: which they are now, the stack's outputs say by their public halves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

_TYPE: Final = "tidepool:ssh:Access"


def ensure_ssh_access(data: Path, outputs: Mapping[str, Any], state: Callable[[], Mapping[str, Any]]) -> None:
    """Have the keys below ``data``, where the controller of ``outputs`` is reached by them, and they are not there or others.

    ``state`` gives the stack's state with its secrets shown; it is asked where it is needed.
    """
    controller = outputs.get("controller")
    if not isinstance(controller, Mapping) or controller.get("kind") != "ssh":
        return
    from tidepool.infrastructures.connection import kept_for_ssh, ssh_folder
    from tidepool.infrastructures.local.kernel.private import write_private

    folder = ssh_folder(data, str(controller["stack"]))
    if _is_current(folder, outputs.get("sshAccess")):
        return
    for each in state()["deployment"].get("resources", ()):
        if each["type"] == _TYPE:
            inputs = {name: _plain(value) for name, value in each["inputs"].items()}
            kept = kept_for_ssh(
                inputs["privateKey"], inputs["hostKey"], inputs["addresses"], int(inputs.get("port", 22))
            )
            for name, text in kept.items():
                write_private(folder / name, text)


def _is_current(folder: Path, access: Mapping[str, Any] | None) -> bool:
    """Return whether the keys in ``folder`` are there, and are those of ``access``; None of a stack that does not say it yet."""
    from tidepool.infrastructures.connection import kept_for_ssh, public_half

    try:
        key, known_hosts = (folder / "key").read_text(), (folder / "known_hosts").read_text()
    except FileNotFoundError:
        return False
    if access is None:
        return True
    wanted = kept_for_ssh("", access["hostKey"], access["addresses"], int(access.get("port", 22)))
    return (
        known_hosts == wanted["known_hosts"] and public_half(key).split() == access["publicKey"].split()[:2]
    )


def _plain(value: Any) -> Any:
    """A value of an export with its secrets shown."""
    return json.loads(value["plaintext"]) if isinstance(value, Mapping) and "plaintext" in value else value
