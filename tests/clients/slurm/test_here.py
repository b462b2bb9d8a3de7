"""Commands on this machine: their environment, their end, and all that they started."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.clients.slurm.namespaces import InNamespaces
from tidepool.clients.here import Here
from tidepool.clients.slurm import Completed, TimedOut, Unreachable


def test_a_command_is_an_argument_list_that_no_shell_reads() -> None:
    completed = Here().run(["printf", "%s|", "a b", "$HOME;*"], timeout_s=10)
    assert completed == Completed(0, "a b|$HOME;*|", "")


def test_it_reads_what_it_is_given_and_nothing_else() -> None:
    assert Here().run(["cat"], stdin="grüße\n", timeout_s=10).stdout == "grüße\n"
    assert Here().run(["cat"], timeout_s=10).stdout == ""


def test_the_callers_environment_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("A_SECRET", "x")
    seen = Here({"SLURM_CONF": "/a"}).run(["env"], timeout_s=10).stdout.splitlines()
    assert {line.partition("=")[0] for line in seen} == {"PATH", "SLURM_CONF"}


def test_bytes_that_are_no_text_do_not_break_an_answer() -> None:
    assert Here().run(["printf", r"a\377b"], timeout_s=10).stdout == "a\ufffdb"


def test_a_command_that_is_missing_is_told_of_by_name() -> None:
    with pytest.raises(Unreachable, match="no-such-command cannot be started"):
        Here().run(["no-such-command"], timeout_s=10)


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    script = "import os, time\npid = os.fork()\nopen(%r, 'a').write(f'{os.getpid()}\\n')\ntime.sleep(600)\n"
    pids = tmp_path / "pids"
    began = time.monotonic()
    with pytest.raises(TimedOut, match=r"python3 did not end within 3 s"):
        Here().run(["python3", "-c", script % str(pids)], timeout_s=3)
    assert time.monotonic() - began < 10
    both = [int(line) for line in pids.read_text().split()]
    assert len(both) == 2
    for pid in both:
        gone_within(pid, 5)


def test_a_grandchild_that_left_does_not_hold_a_time_out_up(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = "import os, time\nif os.fork() == 0:\n os.setsid()\n open(%r, 'w').write(str(os.getpid()))\ntime.sleep(30)\n"
    began = time.monotonic()
    with pytest.raises(TimedOut):
        Here().run(["python3", "-c", script % str(pids)], timeout_s=3)
    assert time.monotonic() - began < 10
    os.kill(int(pids.read_text()), 9)


def test_a_process_that_ended_has_no_namespaces() -> None:
    ended = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(ended, 0)
    with pytest.raises(Unreachable, match="has ended"):
        InNamespaces(ended).run(["true"], timeout_s=10)


def gone_within(pid: int, seconds: float) -> None:
    """Wait until the process ``pid`` is gone, or fail."""
    deadline = time.monotonic() + seconds
    while is_there(pid):
        assert time.monotonic() < deadline, f"{pid} is still there"
        time.sleep(0.01)


def is_there(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the latter where it ends while it is read
        return False
