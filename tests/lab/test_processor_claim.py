"""Two campaigns on the same processors: the second is told who measures there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tidepool.lab.errors import LabError
from tidepool.lab.processor_claim import claim

ROOT = Path(__file__).parents[2]
_HOLD = """\
import sys, time
from tidepool.lab.processor_claim import claim
with claim([0, 1], sys.argv[1]):
    print("has them", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def space() -> str:
    return f"tidepool/test-{uuid.uuid4().hex}"


def test_the_second_on_a_processor_is_told_of_the_first(space: str) -> None:
    with (
        claim([0, 2], space),
        pytest.raises(LabError, match=rf"processor 2 is measured on by process {os.getpid()} "),
        claim([2, 3], space),
    ):
        raise AssertionError("it was claimed twice")
    with claim([0, 2], space), claim([1, 3], space):
        pass


def test_a_process_that_was_killed_holds_nothing(space: str) -> None:
    with subprocess.Popen([sys.executable, "-c", _HOLD, space], cwd=ROOT, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"has them\n"
        with (
            pytest.raises(
                LabError, match=rf"(?s)processors 0, 1 are measured on by process {first.pid} .*claim"
            ),
            claim([0, 1], space),
        ):
            raise AssertionError("it was claimed twice")
        first.send_signal(signal.SIGKILL)
    with claim([0, 1], space):
        pass
