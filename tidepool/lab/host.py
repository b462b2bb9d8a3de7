"""The host of a laboratory: what its kernel tells of time that was stolen, throttling, frequency and energy; and what it is.

Sources: proc(5); the kernel's Documentation/admin-guide/pm/cpufreq.rst, power/powercap/powercap.rst.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tidepool.lab.laboratory import Disturbance
from tidepool.lab.outcome import HostSample
from tidepool.lab.sampling import process_usage

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_CPU: Final = "sys/devices/system/cpu"


@dataclass(frozen=True, slots=True)
class Host:
    """This machine, as its kernel tells of it below ``root``."""

    root: Path = Path("/")

    def sample(self, at_s: float, own_cpu_s: float) -> HostSample:
        """Look at it; ``own_cpu_s`` is the processor time that the laboratory has used by now, which is none of others'."""
        busy_s, stolen_s = processor_times((self.root / "proc/stat").read_text())
        return HostSample(
            at_s=at_s,
            stolen_s=stolen_s,
            busy_s=busy_s,
            other_s=busy_s - own_cpu_s,
            frequency_hz=self._frequency_hz(),
            throttled=self._throttled(),
            energy_j=self._energy_j(),
        )

    def environment(self) -> Mapping[str, str]:
        """Return all of it that figures may depend on, but the schedulers."""
        found = {
            "kernel": platform.release(),
            "machine": platform.machine(),
            "processor": self._processor(),
            "processors": str(os.cpu_count()),
            "memory": self._line("proc/meminfo", "MemTotal"),
            "kernel arguments": self._text("proc/cmdline"),
            "clock": self._text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            "governor": self._text(f"{_CPU}/cpu0/cpufreq/scaling_governor"),
            "virtualization": "yes" if "hypervisor" in self._line("proc/cpuinfo", "flags").split() else "no",
            "python": platform.python_version(),
            "tidepool": version("tidepool"),
        }
        for file in sorted((self.root / _CPU / "vulnerabilities").glob("*")):
            found[f"mitigation {file.name}"] = file.read_text().strip()
        return {name: value for name, value in found.items() if value}

    def _processor(self) -> str:
        return self._line("proc/cpuinfo", "model name")

    def _frequency_hz(self) -> float | None:
        files = sorted((self.root / _CPU).glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
        each = [int(text) * 1000.0 for file in files if (text := file.read_text().strip()).isdecimal()]
        return sum(each) / len(each) if each else None

    def _throttled(self) -> int | None:
        files = (self.root / _CPU).glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
        each = [int(file.read_text()) for file in files]
        return sum(each) if each else None

    def _energy_j(self) -> float | None:
        """Energy of all packages; their counters begin again at a maximum, which `unwrapped` mends."""
        files = sorted((self.root / "sys/class/powercap").glob("intel-rapl:[0-9]/energy_uj"))
        try:
            each = [int(file.read_text()) / 1e6 for file in files]
        except PermissionError:
            return None
        return sum(each) if each else None

    def energy_range_j(self) -> float:
        """Return where the counters of energy begin again, all packages together; 0 where there are none."""
        files = (self.root / "sys/class/powercap").glob("intel-rapl:[0-9]/max_energy_range_uj")
        return sum(int(file.read_text()) / 1e6 for file in files)

    def _text(self, path: str) -> str:
        file = self.root / path
        return file.read_text().strip() if file.exists() else ""

    def _line(self, path: str, key: str) -> str:
        for line in self._text(path).splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
        return ""


def processor_times(stat: str) -> tuple[float, float]:
    """Return the time that processors were busy and that was stolen from them, of all together, in seconds, from /proc/stat."""
    fields = next(line for line in stat.splitlines() if line.startswith("cpu ")).split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(int, fields)
    return (user + nice + system + irq + softirq) / _TICKS, steal / _TICKS


def unwrapped(samples: Sequence[HostSample], range_j: float) -> tuple[HostSample, ...]:
    """Return samples whose energy only grows: a counter that is less than before has begun again at ``range_j``."""
    found: list[HostSample] = []
    added, before = 0.0, None
    for sample in samples:
        if sample.energy_j is None:
            found.append(sample)
            continue
        if before is not None and sample.energy_j < before:
            added += range_j
        before = sample.energy_j
        found.append(replace(sample, energy_j=sample.energy_j + added))
    return tuple(found)


def disturbance(samples: Sequence[HostSample], processors: int, bounds: Disturbance) -> str:
    """Say what came from outside between the first sample and the last, where that is beyond the bounds; empty where it is not.

    Args:
        samples: in the order of time.
        processors: how many the host has.
        bounds: what may be.
    """
    if len(samples) < 2:
        return ""
    first, last = samples[0], samples[-1]
    whole_s = (last.at_s - first.at_s) * processors
    if whole_s <= 0:
        return ""
    said = []
    # The kernel counts in ticks, so a whole moment may seem a little more than that.
    stolen = min(100.0, 100 * (last.stolen_s - first.stolen_s) / whole_s)
    other = min(100.0, 100 * (last.other_s - first.other_s) / whole_s)
    if stolen > bounds.stolen_percent:
        said.append(
            f"the hypervisor took {stolen:.1f} % of the processors' time, and {bounds.stolen_percent:g} % may be taken"
        )
    if other > bounds.other_percent:
        said.append(
            f"other programs used {other:.1f} % of the processors' time, and {bounds.other_percent:g} % may be used"
        )
    if first.throttled is not None and last.throttled is not None:
        throttled = last.throttled - first.throttled
        if throttled > bounds.throttled:
            said.append(f"processors throttled {throttled} times, and {bounds.throttled} times is allowed")
    return "; ".join(said)


def own_cpu_s(machines_cpu_s: Callable[[], float]) -> float:
    """Return the processor time of the laboratory: of its machines, of this process, and of all that it has started."""
    times = os.times()
    ended_s = times.children_user + times.children_system
    running = (process_usage(pid) for pid in descendants(os.getpid()))
    return (
        machines_cpu_s() + times.user + times.system + ended_s + sum(each.cpu_s for each in running if each)
    )


def other_programs(
    machines: Callable[[], frozenset[int]], proc: Path = Path("/proc")
) -> Mapping[str, Sequence[int]]:
    """Return the processes of the host that are none of the laboratory's, by their names (15 characters).

    ``machines`` are those of its machines; its own are also this process and all that it has started.
    """
    # Its own are asked for afterwards: what a machine starts meanwhile is not taken for another's.
    pids = [int(folder.name) for folder in proc.glob("[0-9]*")]
    own = {os.getpid()} | machines() | descendants(os.getpid())
    found: dict[str, list[int]] = {}
    for pid in pids:
        if pid in own:
            continue
        try:
            name = (proc / str(pid) / "comm").read_text().rstrip("\n")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        # The kernel's threads are named by where they run as well: kworker/0:1.
        found.setdefault(name.partition("/")[0], []).append(pid)
    return found


def descendants(pid: int) -> frozenset[int]:
    """Return the processes that a process has started, and those that they have, as far as they run."""
    found: set[int] = set()
    try:
        files = [*Path(f"/proc/{pid}/task").glob("*/children")]
    except (FileNotFoundError, ProcessLookupError):
        return frozenset()  # it has ended since it was told of
    for file in files:
        try:
            children = {int(child) for child in file.read_text().split()}
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that has ended meanwhile
        for child in children - found:
            found |= {child} | descendants(child)
    return frozenset(found)
