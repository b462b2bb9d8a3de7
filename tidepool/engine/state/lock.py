"""One operation at a time on a stack: lock files, as Pulumi's DIY backends write them.

Source: ``pkg/backend/diy/lock.go``. Whoever wants a stack writes a file of its own and then looks for
others: where two do so at once, both see each other, and both give up. Never do both hold it, in any bucket in which a
list that begins after a write has been answered has it, which S3 promises, and PostgreSQL, and a file system. A lock whose process is gone stops
the CLI until somebody runs ``pulumi cancel``; here it is taken over when it is certain that the process
is gone, so that what was killed can go on by itself.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidepool.engine.errors import EngineError
from tidepool.engine.state.bucket import Bucket
from tidepool.engine.state.files import StorageError

#: Clocks of kernel and user space may differ by this much when a process' start is compared with a lock.
_CLOCK_SLACK_S = 2.0


class StackLocked(EngineError):
    """Somebody else is at work on the stack. The text is the CLI's, which the Automation API looks for."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a lock. ``timestamp`` is RFC 3339. The last four are only in locks of this engine."""

    pid: int
    username: str
    hostname: str
    timestamp: str
    #: Which machine: a hash of its id. Two machines may share a host name.
    machine: str = ""
    #: Which start of the machine.
    boot: str = ""
    #: The namespace in which ``pid`` counts: containers on one host have several.
    pid_namespace: str = ""
    #: When the process began, in clock ticks since the machine's start: tells it from a later one with its pid.
    start_ticks: int = 0

    @classmethod
    def this_process(cls, now: datetime) -> Holder:
        pid = os.getpid()
        ticks = _start_ticks(pid)
        return cls(
            pid=pid,
            username=_username(),
            hostname=socket.gethostname(),
            timestamp=now.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            machine=_machine(),
            boot=_read_text("/proc/sys/kernel/random/boot_id"),
            pid_namespace=_namespace(),
            start_ticks=ticks or 0,
        )

    def __str__(self) -> str:
        time = self.timestamp.split(".", 1)[0]
        if time != self.timestamp and self.timestamp.endswith("Z"):
            time += "Z"
        return f"{self.username}@{self.hostname} (pid {self.pid}) at {time}"


def is_gone(holder: Holder, here: Holder, *, shared: bool = False) -> bool:
    """Return whether the process of ``holder`` has certainly ended, as far as ``here`` can tell.

    False wherever it cannot be told: another host, or another container's process ids. Where machines ``shared`` the
    place, two of one image may have the same name and id: then only the same start of one is the same machine.
    """
    if shared and (not holder.boot or holder.boot != here.boot):
        return False
    if holder.hostname != here.hostname or holder.pid <= 0:
        return False
    if holder.machine and here.machine and holder.machine != here.machine:
        return False
    if holder.boot and here.boot and holder.boot != here.boot:
        # This machine was started again since. Without the machine's id it may be another one of that name.
        return bool(holder.machine and here.machine)
    if holder.pid_namespace and holder.pid_namespace != here.pid_namespace:
        return False
    ticks = _start_ticks(holder.pid)
    if ticks is None:
        return not _exists(holder.pid)
    if ticks < 0:  # a zombie: it ended, only nobody has asked how
        return True
    if holder.start_ticks:
        return ticks != holder.start_ticks
    return _began_after(ticks, holder.timestamp)


class StackLock:
    """A lock on one stack; a context manager. ``warnings`` says which locks were taken over."""

    def __init__(self, bucket: Bucket, folder: Path, now: Callable[[], datetime]) -> None:
        """``folder`` is the stack's folder of locks."""
        self._bucket = bucket
        self._folder = folder
        self._now = now
        self.path = folder / f"{uuid.uuid4()}.json"
        self.warnings: tuple[str, ...] = ()

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            StackLocked: when somebody else holds it; nothing is left behind.
            StorageError: when the lock's file cannot be written.
        """
        here = Holder.this_process(self._now())
        self.warnings = tuple(self._clear_the_way(here))
        # Readable for all: whoever comes next is to be told who is at work.
        try:
            self._bucket.write(self.path, _encode(here), durable=False, mode=0o644)
            # Somebody may have come between the look and the write: then both of us see the other.
            self._clear_the_way(here)
        except BaseException as error:
            # Of a write that was not answered nobody knows whether it was done.
            self._release_after(error)
            raise

    def release(self) -> None:
        """Give the lock back. Without effect where ``cancel`` took it away already."""
        self._bucket.remove(self.path)

    def __enter__(self) -> StackLock:
        self.acquire()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            self.release()
        else:
            self._release_after(error)

    def _release_after(self, error: BaseException) -> None:
        """Give the lock back where ``error`` ended the work: it is what a person is to be told, and what became of the lock."""
        try:
            self.release()
        except StorageError as stays:
            raise StorageError(
                f"{error}\nThe lock may still be there: {stays}\nOnce that is mended, take it away with `pulumi cancel`."
            ) from error

    def _clear_the_way(self, here: Holder) -> list[str]:
        """Take over what is left of processes that are gone; raises where somebody lives."""
        living: list[tuple[Path, Holder | str]] = []
        gone: list[tuple[Path, Holder]] = []
        for name in self._bucket.names(self._folder):
            path = self._folder / name
            if path == self.path:
                continue
            holder = _read_holder(self._bucket, path)
            if holder is None:
                continue
            if isinstance(holder, Holder) and is_gone(holder, here, shared=self._bucket.is_shared):
                gone.append((path, holder))
            else:
                living.append((path, holder))
        if living:
            raise StackLocked(_locked_message(self._bucket, living))
        for path, _ in gone:
            self._bucket.remove(path)
        return [
            f"took over a lock whose process is gone: it was created by {holder} ({self._bucket.location(path)}). "
            "What it had under way is recovered from its journal, if it left one"
            for path, holder in gone
        ]


def _locked_message(bucket: Bucket, living: list[tuple[Path, Holder | str]]) -> str:
    first = (
        f"the stack is currently locked by {len(living)} lock(s). Either wait for the other process(es) to end "
        "or delete the lock file with `pulumi cancel`."
    )
    lines = [first]
    for path, holder in living:
        who = f"created by {holder}" if isinstance(holder, Holder) else f"its content is damaged: {holder}"
        place = bucket.location(path)
        lines.append(f"  {place if '://' in place else f'file://{place}'}: {who}")
    return "\n".join(lines)


def _read_holder(bucket: Bucket, path: Path) -> Holder | str | None:
    """The holder; a text where the file is damaged; None where the lock was released meanwhile."""
    try:
        raw: Any = json.loads(bucket.read(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        return str(error)
    if not isinstance(raw, dict):
        return "not a JSON object"
    pid, ticks = raw.get("pid"), raw.get("startTicks")
    return Holder(
        pid=pid if isinstance(pid, int) else 0,
        username=str(raw.get("username", "")),
        hostname=str(raw.get("hostname", "")),
        timestamp=str(raw.get("timestamp", "")),
        machine=str(raw.get("machine", "")),
        boot=str(raw.get("boot", "")),
        pid_namespace=str(raw.get("pidNamespace", "")),
        start_ticks=ticks if isinstance(ticks, int) else 0,
    )


def _encode(holder: Holder) -> bytes:
    fields = {
        "pid": holder.pid,
        "username": holder.username,
        "hostname": holder.hostname,
        "timestamp": holder.timestamp,
        "machine": holder.machine,
        "boot": holder.boot,
        "pidNamespace": holder.pid_namespace,
        "startTicks": holder.start_ticks,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def _username() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as containers have
        return str(os.getuid())


def _machine() -> str:
    id = _read_text("/etc/machine-id")
    # The id itself is confidential (man 5 machine-id).
    return hashlib.sha256(f"tidepool lock {id}".encode()).hexdigest()[:16] if id else ""


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start_ticks(pid: int) -> int | None:
    """When a process began, in clock ticks since the machine's start; -1 for one that ended; None if unknown."""
    stat = _read_text(f"/proc/{pid}/stat")
    if not stat:
        return None
    fields = stat.rpartition(")")[2].split()  # the name in brackets may hold blanks
    return -1 if fields[0] in "ZX" else int(fields[19])


def _began_after(ticks: int, timestamp: str) -> bool:
    """Return whether a process that began at ``ticks`` is younger than a lock's timestamp."""
    try:
        # Go writes nanoseconds, which Python 3.11 reads up to microseconds only.
        head, dot, tail = timestamp.partition(".")
        zone = tail.lstrip("0123456789") if dot else ""
        locked = datetime.fromisoformat(head + zone if dot else timestamp)
    except ValueError:
        return False
    if locked.tzinfo is None:
        return False
    boot = next((line for line in _read_text("/proc/stat").splitlines() if line.startswith("btime ")), "")
    if not boot:
        return False
    began_s = int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    return began_s > locked.timestamp() + _CLOCK_SLACK_S
