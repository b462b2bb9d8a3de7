from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.engine.state import recordings
from tidepool.engine.state.backend import DiyBackend
from tidepool.engine.state.layout import StackReference
from tidepool.engine.state.lock import Holder, StackLocked, is_gone

DEV = StackReference("project", "dev")
NOW = datetime.now(UTC)

# Takes the lock when told to, says how it went, and holds it until told to let go.
LOCKER = """
import sys
from pathlib import Path
from tidepool.engine.state.backend import DiyBackend
from tidepool.engine.state.folder import Folder
from tidepool.engine.state.lock import StackLocked
from tidepool.engine.state.layout import StackReference
lock = DiyBackend(Folder(Path(sys.argv[1]))).lock(StackReference("project", "dev"))
for line in sys.stdin:
    if line == "acquire\\n":
        try:
            lock.acquire()
            print("held", flush=True)
        except StackLocked as error:
            print("refused", str(error).splitlines()[0], flush=True)
    elif line == "release\\n":
        lock.release()
        print("released", flush=True)
"""


class Locker:
    """Another process that can take the lock."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", LOCKER, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.wait()


@pytest.fixture
def lockers(tmp_path: Path) -> Iterator[list[Locker]]:
    both = [Locker(tmp_path), Locker(tmp_path)]
    yield both
    for locker in both:
        locker.close()


def locks_of(backend: DiyBackend) -> list[Path]:
    return sorted(backend.layout.locks(DEV).glob("*.json"))


def leave_lock(backend: DiyBackend, **fields: object) -> Path:
    content = {
        "pid": 1,
        "username": "me",
        "hostname": "elsewhere",
        "timestamp": "2026-11-21T10:30:41.123456789Z",
    }
    path = backend.layout.locks(DEV) / "left.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content | fields), encoding="utf-8")
    return path


def test_a_lock_looks_as_the_cli_writes_it(backend: DiyBackend) -> None:
    with backend.lock(DEV) as lock:
        (path,) = locks_of(backend)
        assert path == lock.path
        assert path.parent == backend.layout.bookkeeping / "locks" / "organization" / "project" / "dev"
        content = json.loads(path.read_bytes())
        assert list(content)[:4] == ["pid", "username", "hostname", "timestamp"]
        assert content["pid"] == os.getpid()
        assert content["hostname"] == socket.gethostname()
        assert abs(datetime.fromisoformat(content["timestamp"]) - NOW) < timedelta(hours=1)
        assert lock.path.exists()
    assert locks_of(backend) == []
    assert not lock.path.exists()


def test_who_holds_it_is_told_in_the_words_that_the_automation_api_looks_for(backend: DiyBackend) -> None:
    path = leave_lock(backend)
    with pytest.raises(StackLocked) as caught, backend.lock(DEV):
        pytest.fail("taken from its holder")
    first, second = str(caught.value).splitlines()
    assert first.startswith("the stack is currently locked by 1 lock(s).")
    assert "pulumi cancel" in first
    assert second == f"  file://{path}: created by me@elsewhere (pid 1) at 2026-11-21T10:30:41Z"
    assert locks_of(backend) == [path]
    assert backend.break_locks(DEV) == 1
    with backend.lock(DEV) as lock:
        assert lock.warnings == ()


def test_a_stack_is_locked_against_this_very_process(backend: DiyBackend) -> None:
    with backend.lock(DEV), pytest.raises(StackLocked, match=f"pid {os.getpid()}"):
        backend.create(DEV)
    backend.create(DEV)


def test_a_damaged_lock_still_locks(backend: DiyBackend) -> None:
    leave_lock(backend).write_text("{", encoding="utf-8")
    with pytest.raises(StackLocked, match="its content is damaged"), backend.lock(DEV):
        pytest.fail("taken")


def test_of_two_at_once_never_both_hold_it(backend: DiyBackend, lockers: list[Locker]) -> None:
    for _ in range(30):
        for locker in lockers:
            locker.tell("acquire")
        answers = [locker.answer() for locker in lockers]
        assert answers.count("held") <= 1
        assert all(a == "held" or "the stack is currently locked by" in a for a in answers)
        for locker, answer in zip(lockers, answers, strict=True):
            if answer == "held":
                locker.tell("release")
                assert locker.answer() == "released"
        assert locks_of(backend) == []  # who gave up left nothing


def test_one_after_the_other_both_hold_it(lockers: list[Locker]) -> None:
    for locker in lockers:
        locker.tell("acquire")
        assert locker.answer() == "held"
        locker.tell("release")
        assert locker.answer() == "released"


@pytest.mark.parametrize("reaped", [True, False])
def test_the_lock_of_a_killed_process_is_taken_over_and_that_is_told(
    backend: DiyBackend, lockers: list[Locker], reaped: bool
) -> None:
    killed = lockers[0].process
    lockers[0].tell("acquire")
    assert lockers[0].answer() == "held"
    with pytest.raises(StackLocked, match=f"pid {killed.pid}"), backend.lock(DEV):
        pytest.fail("taken from the living")
    killed.send_signal(signal.SIGKILL)
    if reaped:
        killed.wait()
    else:
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now
    with backend.lock(DEV) as lock:
        (warning,) = lock.warnings
        assert f"(pid {killed.pid})" in warning
        assert "is gone" in warning
        assert locks_of(backend) == [lock.path]


def test_the_lock_of_a_killed_cli_is_taken_over_on_its_own_machine_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, ref = recordings.copy_to(tmp_path), recordings.reference("cut")
    (path,) = backend.layout.locks(ref).glob("*.json")
    recorded = json.loads(path.read_bytes())
    monkeypatch.setattr(socket, "gethostname", lambda: "somewhere-else")
    with pytest.raises(StackLocked, match=f"pid {recorded['pid']}"), backend.lock(ref):
        pytest.fail("taken without knowing")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    path.write_text(json.dumps(recorded | {"pid": ended.pid}), encoding="utf-8")
    monkeypatch.setattr(socket, "gethostname", lambda: recorded["hostname"])
    with backend.lock(ref) as lock:
        assert len(lock.warnings) == 1


def test_who_is_gone() -> None:
    here = Holder.this_process(NOW)
    assert not is_gone(here, here)
    later = replace(here, start_ticks=here.start_ticks + 1)
    assert is_gone(later, here)  # the same pid, another process
    assert not is_gone(replace(later, hostname="elsewhere"), here)
    assert not is_gone(replace(later, machine="elsewhere"), replace(here, machine="here"))
    assert not is_gone(replace(later, pid_namespace="pid:[1]"), here)
    rebooted = replace(here, boot="before")
    assert is_gone(replace(rebooted, machine="m"), replace(here, machine="m"))
    assert not is_gone(replace(rebooted, machine=""), here)
    # A lock of the CLI tells only when it was made.
    cli = replace(here, machine="", boot="", pid_namespace="", start_ticks=0)
    assert not is_gone(cli, here)
    assert is_gone(replace(cli, timestamp="2001-01-01T00:00:00.123456789Z"), here)
    assert is_gone(replace(cli, timestamp="2001-01-01T00:00:00+01:00"), here)
    assert not is_gone(replace(cli, timestamp="nonsense"), here)
    assert not is_gone(replace(cli, timestamp="2001-01-01T00:00:00"), here)
    assert not is_gone(replace(cli, pid=0), here)
