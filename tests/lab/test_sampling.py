"""Samples beside a trial: sums over processes that come and go, and looks that fail."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.lab.outcome import HostSample
from tidepool.lab.sampling import PartUsage, ProcessUsage, process_usage, sampling


def test_a_process_s_use_is_read_and_none_of_one_that_is_gone() -> None:
    own = process_usage(os.getpid())
    assert own is not None
    assert own.cpu_s > 0
    assert own.memory_bytes > 1 << 20
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert process_usage(ended.pid) is None


@given(st.lists(st.dictionaries(st.integers(1, 5), st.floats(0, 10)), min_size=1, max_size=8))
def test_time_of_a_part_never_becomes_less_whoever_ends(looks: list[dict[int, float]]) -> None:
    """Each look adds to the time of the processes that are there."""
    summed, times = PartUsage(), dict.fromkeys(range(1, 6), 0.0)
    told = []
    for look in looks:
        for pid, more in look.items():
            times[pid] += more
        (sample,) = summed.add(0.0, {"part": tuple(look)}, lambda pid: ProcessUsage(0, times[pid], 1))
        told.append(sample.cpu_s)
        assert sample.memory_bytes == len(look)
    assert told == sorted(told)
    assert told[-1] == pytest.approx(sum(times.values()))


def test_the_first_and_the_last_moment_are_seen() -> None:
    began = time.monotonic()
    with sampling(
        lambda: time.monotonic() - began,
        lambda: {"here": (os.getpid(),)},
        lambda at_s: HostSample(at_s, 0, 0, 0),
        0.01,
    ) as samples:
        time.sleep(0.1)
    at = [sample.at_s for sample in samples.host]
    assert at == sorted(at)
    assert at[-1] >= 0.1
    assert len(at) >= 3
    assert {sample.part for sample in samples.usage} == {"here"}


def test_other_programs_are_told_by_what_they_used_since_the_first_look() -> None:
    """Each look finds one more program, and that each has used a second more; what has ended keeps what it used."""
    looks: list[int] = []

    def others() -> Mapping[str, Sequence[int]]:
        looks.append(len(looks))
        ended = {"ended": (100,)} if len(looks) == 2 else {}
        return {f"from-{number}": (number,) for number in looks} | ended

    def usage(pid: int) -> ProcessUsage:
        # The first had run for a minute.
        return ProcessUsage(0, 0.5 if pid == 100 else float(len(looks) - pid) + 60 * (pid == 0), 1)

    with sampling(
        time.monotonic, dict, lambda at_s: HostSample(at_s, 0, 0, 0), 0.005, usage, others
    ) as samples:
        assert not samples.largest_others()
        time.sleep(0.1)
    last = len(looks)
    assert samples.largest_others() == {
        "from-0": last - 1.0,
        **{f"from-{number}": float(last - number) for number in range(1, 5)},
    }
    assert samples.others["ended"] == (0.0, 0.5)


def test_a_look_that_fails_is_told_at_the_end() -> None:
    looked: list[float] = []

    def host(at_s: float) -> HostSample:
        looked.append(at_s)
        if len(looked) > 1:
            raise OSError("no /proc any more")
        return HostSample(at_s, 0, 0, 0)

    with (
        pytest.raises(OSError, match="no /proc any more"),
        sampling(time.monotonic, dict, host, 0.005),
    ):
        time.sleep(0.1)
