"""Identity of a process: a pid that was given to another process since is never taken for the one that was meant; and waiting for one."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.cgroup import Cgroups
from tidepool.infrastructures.local.kernel.errors import TimedOut


def readable(descriptor: int, deadline: float) -> bool:
    """Return whether there is something to read (or the end) before the deadline, on the clock ``time.monotonic``."""
    return _ready(descriptor, select.POLLIN, deadline)


def writable(descriptor: int, deadline: float) -> bool:
    """Return whether it takes something (or is broken) before the deadline, on the clock ``time.monotonic``."""
    return _ready(descriptor, select.POLLOUT, deadline)


def _ready(descriptor: int, event: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


def network_namespace(process: int | str) -> str:
    """Return the file of the network namespace that a process is in: of a pid, or of the thread that opens it (``thread-self``)."""
    return f"/proc/{process}/ns/net"


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
            descriptor = os.open(network_namespace(self.pid), os.O_RDONLY | os.O_CLOEXEC)
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


_ENDING_S: Final = 20.0


def started_at(pid: int) -> datetime | None:
    """When the process began, as a machine's first does when it boots; None where it is gone."""
    ticks = _start_ticks(pid)
    if ticks is None:
        return None
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    age_s = uptime_s - ticks / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(datetime.now(UTC).timestamp() - age_s, UTC)


def end_all(cgroups: Cgroups, group: str, lifeline: Lifeline | None) -> None:
    """Kill all that runs there, and wait until it is gone. The end of a first process is the end of all its own.

    The control group is asked too: it knows what no record does, when a creator died or a record was lost.

    Raises:
        TimedOut: something is still there after some seconds.
    """
    if lifeline is not None:
        lifeline.signal(signal.SIGKILL)
    deadline, pause = time.monotonic() + _ENDING_S, threading.Event()
    while members := cgroups.members(group):
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        cgroups.thaw(group)  # what is frozen does not die
        if time.monotonic() > deadline:
            raise TimedOut(f"processes {sorted(members)} of {group} do not end, though killed")
        pause.wait(0.002)
    if lifeline is not None:
        lifeline.wait_gone(_ENDING_S)
