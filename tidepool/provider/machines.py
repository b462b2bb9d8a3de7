"""Facts of the machine behind a connection, without running anything on it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tidepool.infrastructures.local import kernel

_LOG_LINES: Final = 15


def machine_runs(connection: Mapping[str, Any], data: Path) -> bool:
    """Return whether the machine runs, frozen or not; of one that cannot be known so, that it does."""
    match connection:
        case {"kind": "local", "stack": str(stack), "machine": str(machine)}:
            found = kernel.read_machine(data, stack, machine)
            return found is not None and found.pid is not None
    return True


def machine_is_gone(connection: Mapping[str, Any], data: Path) -> bool:
    """Return whether there is no such machine, and no disk of it; of one that cannot be known so, that it is not."""
    match connection:
        case {"kind": "local", "stack": str(stack), "machine": str(machine)}:
            return kernel.read_machine(data, stack, machine) is None
    return False


def booted_at(connection: Mapping[str, Any], data: Path) -> datetime | None:
    """When the machine's present boot began; None where that cannot be known."""
    match connection:
        case {"kind": "local", "stack": str(stack), "machine": str(machine)}:
            found = kernel.read_machine(data, stack, machine)
            if found is not None and found.pid is not None:
                return kernel.started_at(found.pid)
    return None


def boot_log_end(connection: Mapping[str, Any], data: Path) -> str:
    """The last lines of the machine's boot log; empty where there are none."""
    match connection:
        case {"kind": "local", "stack": str(stack), "machine": str(machine)}:
            try:
                return kernel.boot_log(data, stack, machine, _LOG_LINES)
            except kernel.NoSuchMachine:
                return ""
    return ""
