"""Since when a process runs."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

#: By proc(5), of the fields after the name: the 22nd of all.
_START_TICKS: Final = 19


def started_at(pid: int) -> datetime | None:
    """When the process began, as a machine's first does when it boots; None where it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return None
    ticks = int(stat.rpartition(")")[2].split()[_START_TICKS])
    age_s = uptime_s - ticks / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(datetime.now(UTC).timestamp() - age_s, UTC)
