"""What Slurm calls: requests are durable, in order, and nothing of them is lost or half there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidepool.scaling.power import request
from tidepool.scaling.power.request import take, write

PROGRAM = Path(request.__file__)


def call(spool: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """As slurmctld and the daemon call it: by a bare interpreter."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(PROGRAM), *arguments],
        env={"TIDEPOOL_POWER_SPOOL": str(spool)},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_requests_come_out_as_they_went_in_until_they_are_done(tmp_path: Path) -> None:
    for what, nodes in (("up", "cpu-[1-4,7]"), ("down", "cpu-2"), ("up", "cpu-2")):
        assert call(tmp_path, what, nodes).returncode == 0
    *lines, end = call(tmp_path, "take").stdout.splitlines()
    assert end == "end"
    assert [line.partition(" ")[2] for line in lines] == ["up cpu-[1-4,7]", "down cpu-2", "up cpu-2"]
    names = [line.partition(" ")[0] for line in lines]
    # Whoever took them may die: the same again. Acknowledging twice is no mistake.
    assert call(tmp_path, "take").stdout.splitlines() == [*lines, "end"]
    for _ in range(2):
        assert call(tmp_path, "take", stdin="\n".join(names[:2])).stdout.splitlines() == [lines[2], "end"]
    assert call(tmp_path, "take", stdin=names[2]).stdout == "end\n"


def test_a_clock_that_goes_back_changes_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    for moment, nodes in ((now, "a"), (now - 10**12, "b"), (now - 10**13, "c"), (now + 1, "d")):
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment)
        write(str(tmp_path), "up", nodes)
    assert [line.split()[-1] for line in take(str(tmp_path), [])] == ["a", "b", "c", "d"]


def test_what_is_half_written_or_somebodys_is_no_request(tmp_path: Path) -> None:
    name = write(str(tmp_path), "up", "cpu-1")
    for other in (f".{name}", "notes", "1-2", "core.77"):
        (tmp_path / other).write_text("up cpu-9\n")
    assert take(str(tmp_path), ["../escaped", "notes"]) == [f"{name} up cpu-1"]
    assert (tmp_path / "notes").exists()


def test_one_killed_at_any_moment_leaves_a_whole_request_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    for step in ("write", "fsync", "rename"):
        with monkeypatch.context() as at:
            at.setattr(os, step, killed)
            with pytest.raises(Killed):
                write(str(tmp_path), "up", "cpu-1")
        assert take(str(tmp_path), []) == []
    write(str(tmp_path), "up", "cpu-1")
    assert len(take(str(tmp_path), [])) == 1


def test_only_so_many_are_taken_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "MOST_AT_A_TIME", 2)
    names = [write(str(tmp_path), "up", f"cpu-{number}") for number in range(3)]
    assert [line.split()[0] for line in take(str(tmp_path), [])] == names[:2]
    assert [line.split()[0] for line in take(str(tmp_path), names[:2])] == names[2:]


@pytest.mark.parametrize("nodes", ["", "cpu 1", "cpu-1\nup cpu-2", "cpu-$(reboot)", "../cpu"])
def test_what_is_no_hostlist_is_refused(tmp_path: Path, nodes: str) -> None:
    done = call(tmp_path, "up", nodes)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "write names such as cpu-[1-4]" in done.stderr


def test_mistakes_are_said_in_words(tmp_path: Path) -> None:
    for arguments in ([], ["up"], ["sideways", "cpu-1"], ["up", "cpu-1", "cpu-2"]):
        done = call(tmp_path, *arguments)
        assert (done.returncode, "usage:" in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    done = call(tmp_path / "missing", "up", "cpu-1")
    assert done.returncode == 1
    assert "No such file or directory; it is slurmctld's folder of requests" in done.stderr


def test_it_imports_os_and_nothing_that_a_bare_interpreter_has_not_loaded() -> None:
    code = f"import os, sys\nbefore = set(sys.modules)\nexec(open({str(PROGRAM)!r}).read(), {{'__name__': 'x'}})\n"
    code += "print(sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("before", [(), ("--stack", "dev")], ids=["first", "later"])
def test_the_verbs_are_the_same_program(tmp_path: Path, before: tuple[str, ...]) -> None:
    for verb, nodes in (("power-up", "cpu-[1-2]"), ("power-down", "cpu-1")):
        subprocess.run(
            [sys.executable, "-m", "tidepool.cli", *before, verb, nodes],
            env={"TIDEPOOL_POWER_SPOOL": str(tmp_path), "PATH": "/usr/bin:/bin"},
            check=True,
            timeout=60,
        )
    assert [line.partition(" ")[2] for line in take(str(tmp_path), [])] == ["up cpu-[1-2]", "down cpu-1"]


def test_as_the_first_word_the_verb_loads_no_command_line(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['tidepool', 'power-up', 'cpu-1']\n"
        "from tidepool.cli.__main__ import main\n"
        "try: main()\nexcept SystemExit: print(sorted({'click', 'pydantic', 're', 'json'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"TIDEPOOL_POWER_SPOOL": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert "click" not in done.stdout
    assert "pydantic" not in done.stdout
