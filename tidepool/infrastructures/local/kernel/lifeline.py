"""Identity of a process: a pid that was given to another process since is never taken for the one that was meant."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from tidepool.infrastructures.local.kernel.errors import TimedOut
from tidepool.infrastructures.local.kernel.waiting import readable


@dataclass(frozen=True, slots=True)
class Lifeline:
    """PID 1 of a machine or of a network's switch, as the host sees it.

    ``start_ticks`` is when it began, in clock ticks since the host's boot, and ``boot_id`` is which boot.
    """

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> Lifeline | None:
        """The process that has this pid now; None where there is none, or only its remains."""
        ticks = _start_ticks(pid)
        return None if ticks is None else cls(pid, ticks, _boot_id())

    def is_alive(self) -> bool:
        """Return whether that process still runs."""
        return _start_ticks(self.pid) == self.start_ticks and _boot_id() == self.boot_id

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens where it is gone."""
        descriptor = self._open()
        if descriptor is None:
            return
        try:
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)

    def wait_gone(self, timeout_s: float) -> None:
        """Wait for its end, which for a PID 1 is the end of all that ran in its machine.

        Raises:
            TimedOut: it is still there after ``timeout_s``.
        """
        descriptor = self._open()
        if descriptor is None:
            return
        try:
            ended = readable(descriptor, time.monotonic() + timeout_s)
        finally:
            os.close(descriptor)
        if not ended:
            raise TimedOut(f"process {self.pid} did not end within {timeout_s:g} s")

    def open_network_namespace(self) -> int | None:
        """A descriptor of its network namespace; None where the process is gone."""
        try:
            descriptor = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        if self.is_alive():  # only now is it certain whose namespace was opened
            return descriptor
        os.close(descriptor)
        return None

    def _open(self) -> int | None:
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        if self.is_alive():
            return descriptor
        os.close(descriptor)
        return None


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _start_ticks(pid: int) -> int | None:
    """Field 22 of ``/proc/<pid>/stat`` (proc(5)); None for a process that is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *rest = text.rpartition(")")[2].split()  # the name before it may hold anything
    return None if state in "ZX" else int(rest[18])
