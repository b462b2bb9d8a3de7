"""What is forked is as what is started: its output, its end, its environment; and the server outlives whoever asks."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forking import fork_server

_TELLS = """
import os, sys
print(sys.argv[1:], os.getcwd(), sorted(os.environ), sys.stdin.read(), os.getsid(0) == os.getpid())
print("aside", file=sys.stderr)
"""
_ENDS = {
    "of itself": "",
    "a code": "raise SystemExit(3)",
    "nothing": "raise SystemExit",
    "a text": "raise SystemExit('this went wrong')",
    "a mistake": "raise ValueError('that')",
    "a signal": "import os; os.kill(os.getpid(), 9)",
}
ENV = {"A": "1", "PATH": "/usr/bin:/bin"}


def written(folder: Path, text: str) -> str:
    """A program of that text, as an argument for Python."""
    program = folder / "program.py"
    program.write_text(text)
    return str(program)


def test_it_has_its_own_words_folder_environment_and_streams(tmp_path: Path) -> None:
    program = written(tmp_path, _TELLS)
    done = fork_server().run([program, "x", "y z"], tmp_path, ENV, stdin="given", timeout_s=60)
    said = f"['x', 'y z'] {tmp_path} {sorted(ENV)} given True\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "aside\n")
    merged = fork_server().run([program], tmp_path, ENV, timeout_s=60, merged=True)
    assert sorted(merged.stdout.splitlines())[1] == "aside"


@pytest.mark.parametrize("text", _ENDS.values(), ids=_ENDS)
def test_it_ends_as_one_that_was_started(text: str, tmp_path: Path) -> None:
    program = written(tmp_path, text)
    started = subprocess.run(
        [sys.executable, program], cwd=tmp_path, env=ENV, capture_output=True, text=True, check=False
    )
    forked = fork_server().run([program], tmp_path, ENV, timeout_s=60)
    assert forked.returncode == started.returncode
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]


def test_one_that_does_not_end_in_time_is_killed(tmp_path: Path) -> None:
    program = written(tmp_path, "import os, time; print(os.getpid(), flush=True); time.sleep(1000)")
    with pytest.raises(subprocess.TimeoutExpired) as late:
        fork_server().run([program], tmp_path, ENV, timeout_s=3)
    process = int(late.value.stdout or b"")
    assert not Path(f"/proc/{process}").exists()


def test_the_server_outlives_who_asks_and_goes(tmp_path: Path) -> None:
    server = fork_server()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as gone:
        gone.connect(server.path)
    program = written(tmp_path, f"open({str(tmp_path / 'done')!r}, 'w')")
    assert server.run([program], tmp_path, ENV, timeout_s=60).returncode == 0
    assert (tmp_path / "done").exists()


def test_the_key_of_a_stack_is_derived_once(tmp_path: Path) -> None:
    known = "from tidepool.engine.state import secrets; print(secrets.keys().get('of a stack'))"
    program = written(tmp_path, f"{known}; secrets.remember('of a stack', b'key')")
    said = [fork_server().run([program], tmp_path, ENV, timeout_s=60).stdout for _ in range(2)]
    assert said == ["None\n", "a2V5\n"]
