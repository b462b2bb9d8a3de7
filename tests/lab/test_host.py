"""What the kernel tells of the host, from folders like its own; and what of it disturbs a trial."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.lab.host import (
    Host,
    descendants,
    disturbance,
    other_programs,
    own_cpu_s,
    processor_times,
    unwrapped,
)
from tidepool.lab.laboratory import Disturbance
from tidepool.lab.outcome import HostSample

TICKS = os.sysconf("SC_CLK_TCK")
STAT = f"cpu  {2 * TICKS} {TICKS} {3 * TICKS} 900 5 0 {TICKS} {4 * TICKS} 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n"


def _write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    _write(tmp_path, "proc/stat", STAT)
    _write(tmp_path, "proc/meminfo", "MemTotal:       24576 kB\n")
    _write(tmp_path, "proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast\nflags\t\t: fpu hypervisor\n")
    return tmp_path


def test_a_host_that_tells_little(root: Path) -> None:
    assert processor_times(STAT) == (7.0, 4.0)
    assert Host(root).sample(1.5, own_cpu_s=2.0) == HostSample(1.5, 4.0, 7.0, 5.0)
    environment = Host(root).environment()
    assert environment["processor"] == "Fast"
    assert environment["virtualization"] == "yes"
    assert "governor" not in environment


def test_a_host_that_tells_all(root: Path) -> None:
    for cpu, khz in ((0, 2_000_000), (1, 3_000_000)):
        _write(root, f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", f"{khz}\n")
        _write(root, f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count", "4\n")
    _write(root, "sys/class/powercap/intel-rapl:0/energy_uj", "5000000\n")
    _write(root, "sys/class/powercap/intel-rapl:0/max_energy_range_uj", "9000000\n")
    _write(root, "sys/class/powercap/intel-rapl:0:0/energy_uj", "1\n")  # a part of that package
    _write(root, "sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n")
    sample = Host(root).sample(0.0, 0.0)
    assert (sample.frequency_hz, sample.throttled, sample.energy_j) == (2.5e9, 8, 5.0)
    assert Host(root).energy_range_j() == 9.0
    assert Host(root).environment()["mitigation meltdown"] == "Not affected"


def test_this_machine_is_read() -> None:
    before = Host().sample(0.0, 0.0)
    sum(range(3_000_000))
    after = Host().sample(1.0, 0.0)
    assert after.busy_s >= before.busy_s > 0
    assert after.stolen_s >= before.stolen_s >= 0
    assert Host().environment()["kernel"] == os.uname().release


@given(st.lists(st.integers(0, 8), max_size=20))
def test_energy_only_grows(counters: list[int]) -> None:
    samples = [HostSample(float(i), 0, 0, 0, energy_j=float(each)) for i, each in enumerate(counters)]
    told = [each.energy_j for each in unwrapped(samples, 9.0)]
    for before, after, counted in zip(told, told[1:], counters[1:], strict=False):
        assert before is not None
        assert after is not None
        assert before <= after < before + 9
        assert after % 9 == counted


def _between(**last: float) -> tuple[HostSample, HostSample]:
    throttled = int(last.pop("throttled", 0))
    return HostSample(0.0, 0.0, 0.0, 0.0, throttled=0), HostSample(
        10.0, last.get("stolen_s", 0.0), 0.0, last.get("other_s", 0.0), throttled=throttled
    )


def test_what_disturbs_is_named_and_what_is_within_bounds_is_not() -> None:
    bounds = Disturbance(stolen_percent=2.0, other_percent=10.0, throttled=0)
    assert disturbance(_between(stolen_s=0.3, other_s=1.9), 2, bounds) == ""
    assert "hypervisor took 5.0 %" in disturbance(_between(stolen_s=1.0), 2, bounds)
    assert "other programs used 50.0 %" in disturbance(_between(other_s=10.0), 2, bounds)
    assert "throttled 3 times" in disturbance(_between(throttled=3), 2, bounds)
    assert disturbance(_between(stolen_s=1.0, other_s=10.0), 2, bounds).count(";") == 1
    assert disturbance((), 2, bounds) == ""
    anything = Disturbance(stolen_percent=100, other_percent=100)
    assert disturbance(_between(stolen_s=20.02, other_s=20.05), 2, anything) == ""


def test_what_this_process_has_started_is_its_own_while_it_runs_and_after() -> None:
    shell = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    busy = "import sys, time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass\nsys.stdin.read()"
    before = own_cpu_s(lambda: 0.0)
    with subprocess.Popen([sys.executable, "-c", shell, busy], stdin=subprocess.PIPE) as started:
        deadline = time.monotonic() + 30
        while own_cpu_s(lambda: 0.0) < before + 0.2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert len(descendants(os.getpid())) >= 2
        while_running = own_cpu_s(lambda: 0.0)
        assert started.stdin is not None
        started.stdin.close()
    assert started.pid not in descendants(os.getpid())
    assert own_cpu_s(lambda: 5.0) >= while_running + 5.0 - 0.05


def test_programs_that_are_none_of_its_own_are_told_by_their_names() -> None:
    first = Path("/proc/1/comm").read_text().strip()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        others = other_programs(frozenset)
        assert 1 in others[first]
        assert not {os.getpid(), started.pid} & {pid for pids in others.values() for pid in pids}
        assert 1 not in other_programs(lambda: frozenset({1})).get(first, ())
        assert started.stdin is not None
        started.stdin.close()


def test_threads_of_the_kernel_are_one_program_wherever_they_run(tmp_path: Path) -> None:
    for pid, name in ((5_000_001, "kworker/0:1-events"), (5_000_002, "kworker/u8:2"), (5_000_003, "make")):
        _write(tmp_path, f"{pid}/comm", f"{name}\n")
    (tmp_path / "5000004").mkdir()  # it ended while it was looked at
    found = {name: sorted(pids) for name, pids in other_programs(frozenset, tmp_path).items()}
    assert found == {"kworker": [5_000_001, 5_000_002], "make": [5_000_003]}


def test_a_process_that_ends_while_it_is_looked_at_has_started_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scandir(path: object) -> object:
        raise FileNotFoundError(2, "No such file or directory", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("os.scandir", scandir)
        assert descendants(os.getpid()) == frozenset()
