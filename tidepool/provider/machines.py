"""What is known of the machine behind a connection without running anything on it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tidepool import local

_LOG_LINES: Final = 15
#: By proc(5), of the fields after the name: the 22nd of all.
_START_TICKS: Final = 19


def machine_runs(connection: Mapping[str, Any], data: Path) -> bool:
    """Whether the machine runs, frozen or not; of one that cannot be known so, that it does."""
    match connection:
        case {"kind": "local", "stack": str(stack), "machine": str(machine)}:
            found = local.read_machine(data, stack, machine)
            return found is not None and found.pid is not None
    return True


def machine_is_gone(connection: Mapping[str, Any], data: Path) -> bool:
    """Whether there is no such machine, and no disk of it; of one that cannot be known so, that it is not."""
    match connection:
        case {"kind": "local", "stack": str(stack), "machine": str(machine)}:
            return local.read_machine(data, stack, machine) is None
    return False


def booted_at(connection: Mapping[str, Any], data: Path) -> datetime | None:
    """When the machine's present boot began; None where that cannot be known."""
    match connection:
        case {"kind": "local", "stack": str(stack), "machine": str(machine)}:
            found = local.read_machine(data, stack, machine)
            if found is not None and found.pid is not None:
                return _started_at(found.pid)
    return None


def boot_log_end(connection: Mapping[str, Any], data: Path) -> str:
    """The last lines of the machine's boot log; empty where there are none."""
    match connection:
        case {"kind": "local", "stack": str(stack), "machine": str(machine)}:
            try:
                return local.boot_log(data, stack, machine, _LOG_LINES)
            except local.NoSuchMachine:
                return ""
    return ""


def _started_at(pid: int) -> datetime | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return None
    ticks = int(stat.rpartition(")")[2].split()[_START_TICKS])
    age_s = uptime_s - ticks / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(datetime.now(UTC).timestamp() - age_s, UTC)
