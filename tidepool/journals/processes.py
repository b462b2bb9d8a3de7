"""Names of processes, told from later ones with the same number: drivers of conversions and runs, holders of the scaler's lease.

Whoever sees that one of its own machine is gone need not wait for the end of what it had.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol


class Driven(Protocol):
    """Something that one process drives at a time: which, and until when it is taken to be alive."""

    @property
    def driver(self) -> str: ...

    @property
    def driver_until(self) -> datetime | None: ...


_BOOT = Path("/proc/sys/kernel/random/boot_id")


def new_driver() -> str:
    """A name for one who begins to drive: ``<boot>/<pid>/<when the process started>/<random>``."""
    pid = os.getpid()
    return "/".join((_boot(), str(pid), _started(pid) or "0", secrets.token_hex(4)))


def is_dead(driver: str) -> bool:
    """Return whether it is known to be gone: of this boot of this machine, and no such process runs. Of others nothing is known."""
    boot, pid, started, _ = (*driver.split("/"), "", "", "", "")[:4]
    if boot != _boot() or not pid.isdecimal():
        return False
    return _started(int(pid)) != started


def is_driven(driven: Driven, now: datetime, dead: Callable[[str], bool] = is_dead) -> bool:
    """Return whether a process is at it that may be alive."""
    until = driven.driver_until
    return bool(driven.driver) and until is not None and until > now and not dead(driven.driver)


def this_process() -> str:
    """``HOST/PID/...``; the rest tells this process from a later one of the same id."""
    pid = os.getpid()
    return f"{socket.gethostname()}/{pid}/{_here()}/{_started(pid) or ''}"


def is_gone(holder: str) -> bool:
    """Return whether ``holder`` has certainly ended, as far as can be told from here: not on another machine's behalf."""
    host, _, rest = holder.partition("/")
    pid, _, life = rest.partition("/")
    here, _, started = life.rpartition("/")
    if host != socket.gethostname() or not pid.isdecimal() or here != _here():
        return False
    return _started(int(pid)) != started


def _boot() -> str:
    return _BOOT.read_text().strip()


def _here() -> str:
    """This start of this machine, and the namespace of process ids."""
    return f"{_boot()}/{Path('/proc/self/ns/pid').stat().st_ino}"


def _started(pid: int) -> str | None:
    """In ticks since the boot; None where there is none, or only what is left of one until its parent looks."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields[19]
