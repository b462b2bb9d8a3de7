"""The holder of a lease: a process, named so that others on its machine can tell whether it is gone.

A lease of a process that was killed would be waited for to its end.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path


def this_process() -> str:
    """``HOST/PID/...``; the rest tells this process from a later one of the same id."""
    return f"{socket.gethostname()}/{os.getpid()}/{_life(os.getpid())}"


def is_gone(holder: str) -> bool:
    """Return whether ``holder`` has certainly ended, as far as can be told from here: not on another machine's behalf."""
    host, _, rest = holder.partition("/")
    pid, _, life = rest.partition("/")
    if host != socket.gethostname() or not pid.isdecimal() or life.rpartition("/")[0] != _here():
        return False
    return _life(int(pid)) != life


def _life(pid: int) -> str:
    """Return the namespace of its id, and when it began; that is missing where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else f"{_here()}/{fields[19]}"


def _here() -> str:
    """This start of this machine, and the namespace of process ids."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
