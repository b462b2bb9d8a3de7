"""What the daemon waits for between turns: set by signals, by threads, and not at all."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from tidepool.scaling.daemon.wake import Wake

#: Some thousand signals, each of which comes somewhere in the loop of the daemon.
_STORM = """
import signal, time
from tidepool.scaling.daemon.wake import Wake

wake, came = Wake(), 0

def handler(*_):
    global came
    came += 1
    wake.set()

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
while came < 3000:
    wake.clear()
    wake.wait(0.0001)
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_a_signal_may_come_anywhere() -> None:
    """With `threading.Event` it waits for ever after some hundred: a daemon was told to end, and did not."""
    done = subprocess.run(
        [sys.executable, "-c", _STORM], timeout=60, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_what_is_set_is_not_waited_for_until_it_is_cleared() -> None:
    wake = Wake()
    wake.set()
    wake.set()
    for _ in range(2):
        began = time.monotonic()
        wake.wait(30)
        assert time.monotonic() - began < 15
    wake.clear()
    began = time.monotonic()
    wake.wait(0.05)
    assert time.monotonic() - began >= 0.05


def test_another_thread_ends_the_waiting() -> None:
    wake = Wake()
    threading.Timer(0.05, wake.set).start()
    began = time.monotonic()
    wake.wait(60)
    assert time.monotonic() - began < 30
