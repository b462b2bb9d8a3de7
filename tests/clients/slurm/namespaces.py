"""Commands in the namespaces of another process: those of a Slurm that has a root of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from tidepool.clients.here import Here
from tidepool.clients.transport import Completed, Unreachable

#: Those that a command of Slurm needs: files and keys, addresses, and its host's name.
USUAL: Final = ("mount", "net", "uts", "ipc", "pid")


class InNamespaces:
    """Runs commands in ``namespaces`` (nsenter's words: mount, net, uts, ipc, pid, user, cgroup) of process ``pid``.

    It is that one process: when it has ended and its number was given to another, every call is `Unreachable`.
    Root is needed.
    """

    def __init__(
        self, pid: int, namespaces: Collection[str] = USUAL, environment: Mapping[str, str] | None = None
    ) -> None:
        self._pid = pid
        # In a chroot, the root of a mount namespace is the host's; the process's own is what is meant.
        words = [*namespaces, *(("root", "wd") if "mount" in namespaces else ())]
        self._prefix = ["nsenter", f"--target={pid}", *(f"--{word}" for word in words), "--"]
        self._here = Here(environment, where=f"in the namespaces of process {pid}")
        self._started = _start_time(pid)

    @property
    def where(self) -> str:
        return self._here.where

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        if self._started is None or _start_time(self._pid) != self._started:
            raise Unreachable(
                f"process {self._pid}, whose namespaces were to be entered, has ended",
                where=self.where,
                remedy="see whether the machine is up",
            )
        return self._here.run([*self._prefix, *argv], stdin=stdin, timeout_s=timeout_s)

    def close(self) -> None:
        self._here.close()


def _start_time(pid: int) -> str | None:
    """Return when process ``pid`` began, in clock ticks since the boot; None where it has ended."""
    try:
        # The name before it stands in brackets and may hold anything: proc(5).
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, start_time = after_name[0], after_name[19]
    return None if state in "ZX" else start_time
