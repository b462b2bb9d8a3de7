"""The end of a program in the engine's process: what Python does at the end of its own."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .stacks import Stack, await_line, ended

#: Leaves a folder to be removed, a thread that takes longer than the operation, and a last word.
LEAVING = """
import atexit, os, tempfile, threading, time
from pathlib import Path
from fake_sdk import Item
Item("r0", value=0)
traces = Path(os.environ["TRACES"])
folder = tempfile.TemporaryDirectory(dir=traces)
(Path(folder.name) / "file").touch()
(traces / "name").write_text(folder.name)
def last():
    (traces / "atexit").write_text(str((traces / "thread").exists()))
    print("the last word")
atexit.register(last)
def work():
    time.sleep(1.5)
    (traces / "thread").touch()
threading.Thread(target=work).start()
"""


@pytest.mark.parametrize("verb", ["up", "preview"])
def test_its_threads_functions_and_folders_come_to_their_end(stack: Stack, tmp_path: Path, verb: str) -> None:
    stack.write(LEAVING)
    traces = tmp_path / "traces"
    traces.mkdir()
    ran = stack.run(verb, TRACES=str(traces))
    assert ran.code == 0, ran.text
    assert (traces / "atexit").read_text() == "True", "functions are called when the threads have ended"
    assert not Path((traces / "name").read_text()).exists()
    assert "the last word" in ran.out
    assert not stack.locked()


def test_a_failed_program_keeps_its_exit_code(stack: Stack, tmp_path: Path) -> None:
    stack.write(LEAVING + "raise ValueError('it cannot be')\n")
    ran = stack.run("up", TRACES=str(tmp_path))
    assert ran.code == 1
    assert "it cannot be" in ran.text
    assert (tmp_path / "atexit").exists()


def until(is_so: Callable[[], bool]) -> None:
    """Wait until it is."""
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it never was")


def test_a_thread_that_never_ends_is_interrupted(stack: Stack) -> None:
    """All is saved by then; the interrupt is the process's own, as in any other of Python."""
    stack.write(
        "import threading, fake_sdk\nfake_sdk.Item('r0', value=0)\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
    )
    process = stack.start("up")
    await_line(process, process.stdout, "Duration:")
    until(lambda: not stack.locked())
    assert sorted(stack.states()) == ["r0-1"]

    def interrupted() -> bool:
        # One that comes before the operation has quite ended must not cut that off, and is not heard.
        process.send_signal(signal.SIGINT)
        time.sleep(1)
        return process.poll() is not None

    until(interrupted)
    assert ended(process).code == 130
