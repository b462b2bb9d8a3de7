"""The keys by which a stack's machines are reached, on a machine that did not make them: they are secrets of the state.

Another machine may have renewed them: which they are now, the stack's outputs say by their public halves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

_TYPE: Final = "tidepool:ssh:Access"


def ensure_ssh_access(
    data: Path,
    outputs: Mapping[str, Any],
    state: Callable[[], Mapping[str, Any]],
    is_changing: Callable[[], bool],
) -> None:
    """Have the keys below ``data``, where the controller of ``outputs`` is reached by them, and they are not there or others.

    ``state`` gives the stack's state with its secrets shown; it is asked where it is needed. While somebody ``is_changing`` the
    stack, keys that are there stay: they may be newer than what the outputs say.
    """
    controller = outputs.get("controller")
    if not isinstance(controller, Mapping) or controller.get("kind") != "ssh":
        return
    from tidepool.infrastructures.connection import kept_for_ssh, ssh_folder
    from tidepool.infrastructures.local.kernel.private import write_private

    folder = ssh_folder(data, str(controller["stack"]))
    kept = _kept(folder)
    if kept is not None and (_is_of(kept, outputs.get("sshAccess")) or is_changing()):
        return
    for each in state()["deployment"].get("resources", ()):
        if each["type"] == _TYPE:
            inputs = {name: _plain(value) for name, value in each["inputs"].items()}
            found = kept_for_ssh(
                inputs["privateKey"], inputs["hostKey"], inputs["addresses"], int(inputs.get("port", 22))
            )
            for name, text in found.items():
                write_private(folder / name, text)


def _kept(folder: Path) -> tuple[str, str] | None:
    """Return the private key and the known hosts that are there; None where one of them is not."""
    try:
        return (folder / "key").read_text(), (folder / "known_hosts").read_text()
    except FileNotFoundError:
        return None


def _is_of(kept: tuple[str, str], access: Mapping[str, Any] | None) -> bool:
    """Return whether keys are those that the outputs tell of; a stack that was made before they did may have any."""
    from tidepool.infrastructures.connection import kept_for_ssh, public_half

    if access is None:
        return True
    key, known_hosts = kept
    wanted = kept_for_ssh("", access["hostKey"], access["addresses"], int(access.get("port", 22)))
    return (
        known_hosts == wanted["known_hosts"] and public_half(key).split() == access["publicKey"].split()[:2]
    )


def _plain(value: Any) -> Any:
    """A value of an export with its secrets shown."""
    return json.loads(value["plaintext"]) if isinstance(value, Mapping) and "plaintext" in value else value
