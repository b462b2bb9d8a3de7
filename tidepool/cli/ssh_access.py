"""The keys by which a stack's machines are reached, on a machine that did not make them: they are secrets of the state."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

_TYPE: Final = "tidepool:ssh:Access"


def ensure_ssh_access(data: Path, outputs: Mapping[str, Any], state: Callable[[], Mapping[str, Any]]) -> None:
    """Have the keys below ``data``, where the controller of ``outputs`` is reached by them and they are not there.

    ``state`` gives the stack's state with its secrets shown; it is asked where it is needed.
    """
    controller = outputs.get("controller")
    if not isinstance(controller, Mapping) or controller.get("kind") != "ssh":
        return
    from tidepool.infrastructures.connection import kept_for_ssh, ssh_folder
    from tidepool.infrastructures.local.kernel.private import write_private

    folder = ssh_folder(data, str(controller["stack"]))
    if (folder / "key").exists():
        return
    for each in state()["deployment"].get("resources", ()):
        if each["type"] == _TYPE:
            inputs = {name: _plain(value) for name, value in each["inputs"].items()}
            kept = kept_for_ssh(
                inputs["privateKey"], inputs["hostKey"], inputs["addresses"], int(inputs.get("port", 22))
            )
            for name, text in kept.items():
                write_private(folder / name, text)


def _plain(value: Any) -> Any:
    """A value of an export with its secrets shown."""
    return json.loads(value["plaintext"]) if isinstance(value, Mapping) and "plaintext" in value else value
