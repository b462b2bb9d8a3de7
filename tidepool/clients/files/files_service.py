"""The service of people's files on the controllers: it counts homes where no file system does, and wipes scratch by age.

This file is on controllers, where there is Python and nothing else of Tidepool's; there it is run as ``python3 -I -S``:

    files.py serve          a round when it is due, for ever
    files.py round [NOW]    a round now, or as if it were NOW (seconds since 1970)
    files.py trust-clock    a round now, by a clock that a person says is right
    files.py report         print what the last round found, as JSON
    files.py policy         work by what standard input says from now on

All is in `FOLDER`, on the volume of slurmctld's state: ``policy.json`` is what `up` wrote (`Policy`), ``report.json`` what the
last round found, ``wiped.log`` a line of JSON for each file that went. Of several controllers one makes a round, by a lock there.

A file goes when nobody read, wrote or changed it for ``wipe_after_days``. It stays while a job of its owner, or of whose folder it
is in, runs that started before it was last used; where Slurm does not say which jobs run, nothing goes, nor by a clock that is not as
it should be by the last round and the time since. What cannot be looked at is left and told, and all else is done. Nothing is followed and
nothing beyond the file system is entered: folders are opened by name in their parent, and files are deleted in the folder that was
looked at. Between the look at a file and its deletion are microseconds, in which its owner may still write to it.
"""

from __future__ import annotations

import errno
import fcntl
import heapq
import json
import os
import stat
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    Policy = Mapping[str, Any]

#: TIDEPOOL_FILES names another.
FOLDER = "/var/spool/slurmctld/files"
_LOOK_S = 5.0
#: A round takes no more than this part of the time.
_PART = 20
DAY_S = 86_400
#: Of a clock that differs by more from what it should be nothing is believed.
_JUMP_S = DAY_S
#: Folders in folders, beyond which nobody looks.
_DEEPEST = 200
_TOO_DEEP = f"more than {_DEEPEST} folders in folders"
_SOONEST = 20
_LARGEST_LOG = 64 << 20
_SQUEUE_S = 60.0
_OF_JOBS = "RUNNING,SUSPENDED,COMPLETING,STOPPED,CONFIGURING"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Where people read what of theirs goes next: a file for each.
SOON = ".soon"


class Found:
    """Files of one person: those that are there, those of them that go soon, and those that went."""

    def __init__(self, uid: int) -> None:
        self.uid = uid
        self.files = self.bytes = self.soon = self.soon_bytes = 0
        self.wiped = self.wiped_bytes = self.held_by_jobs = self.failed = 0
        self.next_at: float | None = None
        #: The first that go, the latest of them first: minus when, path.
        self.first: list[tuple[float, str]] = []
        #: The first that could not be looked at, written or deleted, and why.
        self.left: list[tuple[str, str]] = []
        self._linked: set[int] = set()

    def count(self, there: os.stat_result) -> int:
        """Count a file; its bytes, which are 0 for another name of one that was counted."""
        size = there.st_blocks * 512
        if there.st_nlink > 1 and not stat.S_ISDIR(there.st_mode):
            if there.st_ino in self._linked:
                size = 0
            self._linked.add(there.st_ino)
        self.files += 1
        self.bytes += size
        return size

    def fail(self, path: str, why: object) -> None:
        """Take down what is left as it is."""
        self.failed += 1
        if len(self.left) < _SOONEST:
            self.left.append((path, _reason(why)))

    def goes(self, at: float, path: str, size: int) -> None:
        """Take down a file that goes at ``at``."""
        self.soon += 1
        self.soon_bytes += size
        self.next_at = at if self.next_at is None else min(self.next_at, at)
        keep = heapq.heappush if len(self.first) < _SOONEST else heapq.heappushpop
        keep(self.first, (-at, path))

    def to_json(self) -> dict[str, object]:
        """Return it for the report."""
        shown = {name: value for name, value in vars(self).items() if name not in ("first", "_linked")}
        return {**shown, "first": [[path, -at] for at, path in sorted(self.first, reverse=True)]}


class Log:
    """The lines of what went; ``person`` is whose they are now. One that cannot be written raises OSError, and is not there."""

    def __init__(self, path: str, now: float) -> None:
        self._now = now
        self.person = ""
        if os.path.exists(path) and os.path.getsize(path) > _LARGEST_LOG:
            os.replace(path, f"{path}.1")
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._fd).st_size

    def write(self, path: str, went: os.stat_result) -> None:
        told = {"at": self._now, "person": self.person, "path": path, "bytes": went.st_blocks * 512}
        line = (json.dumps({**told, "used": last_used(went, self._now)}) + "\n").encode()
        self._size = os.fstat(self._fd).st_size
        if os.write(self._fd, line) < len(line):
            self.take_back()
            raise OSError(errno.ENOSPC, "no room to write down what goes")

    def take_back(self) -> None:
        """Remove the last line."""
        os.ftruncate(self._fd, self._size)

    def close(self) -> None:
        os.close(self._fd)


class Wipe:
    """A wipe of one person's folder as of ``now``; nothing is deleted before ``since``.

    ``starts`` are, by uid, when the first of their running jobs started. What cannot be written into ``log`` does not go.
    """

    def __init__(
        self,
        now: float,
        after_days: int,
        warn_days: int,
        starts: Mapping[int, float],
        since: float,
        log: Log,
    ) -> None:
        self.now, self.starts, self.since, self.log = now, starts, since, log
        self.after_s, self.warn_s = after_days * DAY_S, warn_days * DAY_S

    def folder(self, fd: int, path: str, found: Found, device: int, depth: int = 0) -> bool:
        """Wipe what is in a folder; False where something may be left."""
        is_empty = True
        with os.scandir(fd) as entries:
            for entry in entries:
                try:
                    is_empty &= self._entry(fd, entry.name, f"{path}{entry.name}", found, device, depth)
                except FileNotFoundError:
                    pass  # it went meanwhile
                except OSError as error:
                    found.fail(f"{path}{entry.name}", error)
                    is_empty = False
        return is_empty

    def _entry(self, fd: int, name: str, path: str, found: Found, device: int, depth: int) -> bool:
        """Wipe one entry; return whether it is gone."""
        there = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if there.st_dev != device:
            return False  # another file system
        if not stat.S_ISDIR(there.st_mode):
            return self._goes(fd, name, path, there, found, last_used(there, self.now), os.unlink)
        if depth == _DEEPEST:
            found.fail(path, _TOO_DEEP)
            return False
        inner = os.open(name, _FOLDER, dir_fd=fd)
        try:
            seen = os.fstat(inner)  # before its files go, which changes it
            if seen.st_dev != device:
                return False
            is_empty = self.folder(inner, f"{path}/", found, device, depth + 1)
        finally:
            os.close(inner)
        if is_empty:
            # To look into it is to read it.
            used = max(seen.st_ctime, seen.st_mtime if seen.st_mtime <= self.now else 0.0)
            return self._goes(fd, name, f"{path}/", seen, found, used, os.rmdir)
        found.count(seen)
        return False

    def _goes(
        self,
        fd: int,
        name: str,
        path: str,
        there: os.stat_result,
        found: Found,
        used: float,
        delete: Callable[..., None],
    ) -> bool:
        """Delete it where its time has come; else count it, and say when it goes."""
        at = max(used + self.after_s, self.since)
        if used + self.after_s > self.now:
            size = found.count(there)
            if at <= self.now + self.warn_s:
                found.goes(at, path, size)
            return False
        if used >= min(self.starts.get(uid, self.now + 1) for uid in (there.st_uid, found.uid)):
            found.held_by_jobs += 1
            found.count(there)
            return False
        if self.since > self.now:
            found.goes(self.since, path, found.count(there))
            return False
        self.log.write(path, there)
        try:
            delete(name, dir_fd=fd)
        except OSError:
            self.log.take_back()
            raise
        found.wiped += 1
        found.wiped_bytes += there.st_blocks * 512 if there.st_nlink == 1 else 0
        return True


def last_used(there: os.stat_result, now: float) -> float:
    """Return when a file was last used, at the latest.

    Of reads in a row a kernel writes down one a day. A time that lies in the future says nothing, for anybody can set it; that of
    the last change nobody can.
    """
    changed = max(there.st_ctime, there.st_mtime if there.st_mtime <= now else 0.0)
    return min(there.st_atime + DAY_S, now) if changed < there.st_atime <= now else changed


def count(fd: int, path: str, found: Found, device: int, depth: int = 0) -> None:
    """Count what is in a folder of a home."""
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                there = os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
                if there.st_dev == device:
                    found.count(there)
                    if stat.S_ISDIR(there.st_mode):
                        enter(fd, entry.name, f"{path}{entry.name}/", found, device, depth + 1)
            except FileNotFoundError:
                pass  # it went meanwhile
            except OSError as error:  # of a server that takes root for nobody, say
                found.fail(f"{path}{entry.name}", error)


def enter(fd: int, name: str, path: str, found: Found, device: int, depth: int = 0) -> None:
    """Count what is in the folder ``name``."""
    inner = os.open(name, _FOLDER, dir_fd=fd)
    try:
        if depth > _DEEPEST:
            found.fail(path, _TOO_DEEP)
        elif os.fstat(inner).st_dev == device:
            count(inner, path, found, device, depth)
    finally:
        os.close(inner)


def people(home: int, left: list[tuple[str, str]]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield whose homes there are: the folders that are not root's. Those that cannot be looked at are ``left``."""
    for name in sorted(os.listdir(home)):
        try:
            there = os.stat(name, dir_fd=home, follow_symlinks=False)
        except FileNotFoundError:
            continue
        except OSError as error:
            left.append((name, _reason(error)))
            continue
        if stat.S_ISDIR(there.st_mode) and there.st_uid and not name.startswith("."):
            yield name, there


def _reason(why: object) -> str:
    return str(getattr(why, "strerror", None) or why)


def own_folder(scratch: int, name: str, home: os.stat_result) -> int:
    """Open a person's folder of scratch; it is made where it is missing, for nobody else to look into."""
    try:
        os.mkdir(name, 0o700, dir_fd=scratch)
        made = True
    except FileExistsError:
        made = False
    fd = os.open(name, _FOLDER, dir_fd=scratch)
    if made or os.fstat(fd).st_uid == 0:  # or it was cut off between
        os.fchown(fd, home.st_uid, home.st_gid)
    return fd


def running_since() -> dict[int, float]:
    """Return, by uid, when the first of their jobs that run started; OSError or ValueError where Slurm does not say."""
    command = ["squeue", "--noheader", f"--states={_OF_JOBS}", "--format=%U %S"]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "SLURM_TIME_FORMAT": "%s"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=_SQUEUE_S, check=True)
    except subprocess.SubprocessError as error:
        raise OSError(str(getattr(error, "stderr", "") or error)) from error
    starts: dict[int, float] = {}
    for line in done.stdout.splitlines():
        uid, start = line.split()
        at = float(start) if start.isdecimal() else 0.0
        starts[int(uid)] = min(at, starts.get(int(uid), at))
    return starts


def quiet_until(policy: Policy, before: Mapping[str, Any] | None, now: float) -> float:
    """Return until when nothing is wiped, for people are told of a new rule first."""
    notice: float = now + policy["warn_days"] * DAY_S
    if before is None:
        return notice
    until = float(before["quiet_until"])
    return (
        max(until, notice)
        if policy["wipe_after_days"] < before["policy"].get("wipe_after_days", 0)
        else until
    )


def uptime() -> tuple[str, float]:
    """Return which boot of the kernel this is, and for how long: time that nobody sets."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip(), time.clock_gettime(time.CLOCK_BOOTTIME)


def expected(before: Mapping[str, Any], up: tuple[str, float]) -> float:
    """Return what the clock should say, by the last round whose clock was believed, and the time since as far as it is known."""
    boot, since = before.get("up") or ("", 0.0)
    # Another boot, or another controller: then nobody knows how long it was.
    passed = up[1] - since if boot == up[0] else 0.0
    return float(before.get("expected", before["at"])) + passed


def make_round(
    policy: Policy,
    before: Mapping[str, Any] | None,
    now: float,
    folder: str,
    running: Callable[[], Mapping[int, float]] = running_since,
    *,
    up: tuple[str, float] | None = None,
    trust_clock: bool = False,
) -> dict[str, Any]:
    """Make a round as of ``now``; what it found."""
    began = time.monotonic()
    report: dict[str, Any] = {
        "at": now,
        "policy": dict(policy),
        "why": "",
        "home": {},
        "scratch": {},
        "left": [],
    }
    report["up"] = up = up or uptime()
    should_be = now if before is None or trust_clock else expected(before, up)
    report["is_clock_wrong"] = abs(now - should_be) > _JUMP_S
    report["expected"] = should_be if report["is_clock_wrong"] else now
    last = before if before and before["policy"].get("scratch") == policy.get("scratch") else None
    # By the clock as it should be: of a rule that came while it was wrong, people are told no longer for that.
    until = quiet_until(policy, last, report["expected"])
    if trust_clock:
        until = max(min(until, now + policy["warn_days"] * DAY_S), now + DAY_S)
    report["quiet_until"] = until
    try:
        home = os.open(policy["home"], _FOLDER & ~os.O_NOFOLLOW)
        try:
            homes = list(people(home, report["left"]))
            if policy.get("scratch"):
                _scratch_round(policy, now, folder, running, homes, report)
            if policy.get("count_home"):
                for name, there in homes:
                    report["home"][name] = _count_of(name, there, home).to_json()
        finally:
            os.close(home)
    except OSError as error:
        report["why"] = f"nothing is looked at: {error}"
    report["took_s"] = time.monotonic() - began
    return report


def _count_of(name: str, there: os.stat_result, home: int) -> Found:
    found = Found(there.st_uid)
    try:
        enter(home, name, "", found, there.st_dev)
    except OSError as error:
        found.fail("", error)
    return found


def _clock_reason(report: Mapping[str, Any]) -> str:
    days = abs(report["at"] - report["expected"]) / DAY_S
    should_be = time.strftime("%F %TZ", time.gmtime(report["expected"]))
    return f"nothing is wiped, for the clock is {days:.1f} days from what it should be after the last rounds: {should_be}"


def _scratch_round(
    policy: Policy,
    now: float,
    folder: str,
    running: Callable[[], Mapping[int, float]],
    homes: Sequence[tuple[str, os.stat_result]],
    report: dict[str, Any],
) -> None:
    since = report["quiet_until"]
    later = max(since, now + policy["every_s"])
    starts: Mapping[int, float] = {}
    if now < since:
        report["why"] = "nothing is wiped yet: people are told first"
    try:
        starts = running()
    except (OSError, ValueError) as error:
        since, report["why"] = later, f"nothing is wiped, for Slurm does not say which jobs run: {error}"
    if report["is_clock_wrong"]:
        since, report["why"] = later, _clock_reason(report)
    try:
        log = Log(f"{folder}/wiped.log", now)
        try:
            scratch = os.open(policy["scratch"], _FOLDER & ~os.O_NOFOLLOW)
            try:
                wipe = Wipe(now, policy["wipe_after_days"], policy["warn_days"], starts, since, log)
                for name, there in homes:
                    report["scratch"][name] = _wipe_of(
                        name, there, scratch, policy["scratch"], wipe
                    ).to_json()
            finally:
                os.close(scratch)
        finally:
            log.close()
    except OSError as error:
        report["why"] = f"nothing is wiped: {error}"


def _wipe_of(name: str, home: os.stat_result, scratch: int, path: str, wipe: Wipe) -> Found:
    """Wipe a person's folder, and tell them what goes next; whatever fails is theirs alone."""
    found = Found(home.st_uid)
    wipe.log.person = name
    try:
        fd = own_folder(scratch, name, home)
        try:
            wipe.folder(fd, "", found, os.fstat(scratch).st_dev)
        finally:
            os.close(fd)
    except OSError as error:
        found.fail("", error)  # something else has its name, or no room is left
    try:
        _tell(f"{path}/{SOON}", name, found, home)
    except OSError as error:
        found.fail(f"{SOON}/{name}", error)
    return found


def _tell(folder: str, name: str, found: Found, there: os.stat_result) -> None:
    """Write down for a person what of theirs goes next. The folder is root's, so nobody else puts anything there."""
    told = f"{found.soon} files ({found.soon_bytes >> 20} MiB) go soon, unless they are used; the first of them:\n"
    for at, path in sorted(found.first, reverse=True):
        told += f"{time.strftime('%F', time.gmtime(-at))} {json.dumps(path)}\n"
    os.makedirs(folder, 0o755, exist_ok=True)
    new = f"{folder}/{name}.new"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o400)
    try:
        with open(fd, "wb") as file:
            file.write(told.encode())
            os.fchown(fd, there.st_uid, there.st_gid)
        os.replace(new, f"{folder}/{name}")
    except OSError:
        os.unlink(new)  # what was told before stays
        raise


def read_json(path: str) -> dict[str, Any] | None:
    """Return what stands in a file; None where it is not there."""
    try:
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
            return found
    except FileNotFoundError:
        return None


def write_json(path: str, content: object) -> None:
    """Put it in its place whole."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def is_due(policy: Policy, report: Mapping[str, Any] | None, now: float) -> bool:
    """Return whether a round is due: a new policy, or the time. A round that takes long is made seldom."""
    if report is None or report["policy"] != policy or now < report["at"]:
        return True
    wait: float = max(policy["every_s"], _PART * report["took_s"])
    return bool(now - wait >= report["at"])


def run(folder: str, now: float | None = None, *, only_due: bool = False, trust_clock: bool = False) -> None:
    """Make a round while nobody else makes one."""
    lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        policy, report = read_json(f"{folder}/policy.json"), read_json(f"{folder}/report.json")
        at = time.time() if now is None else now
        if not policy or (only_due and not is_due(policy, report, at)):
            return
        write_json(f"{folder}/report.json", make_round(policy, report, at, folder, trust_clock=trust_clock))
    finally:
        os.close(lock)


def main(arguments: list[str], folder: str) -> int:
    """The exit code: 0, or 2 where it was called wrongly."""
    match arguments:
        case ["serve"]:
            os.nice(10)
            while True:
                try:
                    run(folder, only_due=True)
                except OSError as error:
                    sys.stderr.write(f"error: {error}\n")
                time.sleep(_LOOK_S)
        case ["round", *at] if len(at) < 2:
            run(folder, float(at[0]) if at else None)
        case ["trust-clock"]:
            run(folder, trust_clock=True)
        case ["policy"]:
            write_json(f"{folder}/policy.json", json.load(sys.stdin))
        case ["report"]:
            json.dump(read_json(f"{folder}/report.json"), sys.stdout)
        case _:
            sys.stderr.write("usage: files.py serve | round [NOW] | trust-clock | policy | report\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ.get("TIDEPOOL_FILES") or FOLDER))
