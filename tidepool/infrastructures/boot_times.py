"""Times of a machine's boot by phase, as it tells them itself when it is up. Pure, but for `read_boot`.

One command asks for all of them, and is the same on machines that systemd starts and on those whose first process is ours, or a
container's. What it prints are times since the kernel started; they are given as ages, so that the clocks of two machines
need not agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from tidepool.clients.transport import Transport
from tidepool.cluster.frozen import FrozenDict

BootPhase = Literal["firmware", "loader", "kernel", "initrd", "units", "slurmd"]
#: The phases of a boot, in their order. Each lasts until the next that is known begins.
BOOT_PHASES: Final[tuple[BootPhase, ...]] = get_args(BootPhase)
LaunchPhase = Literal["asked", "making", "resuming", "image", BootPhase]
#: The phases of a launch, in their order, until the node is in service.
LAUNCH_PHASES: Final[tuple[LaunchPhase, ...]] = get_args(LaunchPhase)

#: As Tidepool's slurm.conf has it, and as Linux counts times in /proc.
_PID_FILE: Final = "/run/slurmd.pid"
_TICKS_PER_S: Final = 100
_START_FIELD: Final = 19  # of /proc/PID/stat, behind the name
#: The kernel's log is the machine's own where systemd is its first process: a container would see its host's.
ASK: Final = f"""\
echo "slurmd $(cat "/proc/$(cat {_PID_FILE})/stat" 2>/dev/null)"
if [ -d /run/systemd/system ]; then
    systemctl show --property=FirmwareTimestampMonotonic --property=LoaderTimestampMonotonic \\
        --property=InitRDTimestampMonotonic --property=UserspaceTimestampMonotonic
    dmesg | grep 'Run /init as init process'
else
    echo "first $(cat /proc/1/stat)"
fi
echo "uptime $(cat /proc/uptime)"
"""
_TIMEOUT_S: Final = 15.0
_PROPERTY: Final = re.compile(
    r"^(Firmware|Loader|InitRD|Userspace)TimestampMonotonic=([0-9]+)$", re.MULTILINE
)
_LOGGED: Final = re.compile(r"^\[ *([0-9]+\.[0-9]+)\] Run /init as init process$", re.MULTILINE)
_STAT: Final = re.compile(r"^(slurmd|first) [0-9]+ \(.*\) (.+)$", re.MULTILINE)
_UPTIME: Final = re.compile(r"^uptime ([0-9]+\.[0-9]+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BootTimes:
    """Ages of the phases of a machine's boot: seconds since each began; those that it does not tell of are missing."""

    ages: Mapping[BootPhase, float]


def ask_boot(machine: Transport) -> BootTimes:
    """Ask the machine behind ``machine``, by one command.

    Raises:
        SlurmError: it cannot be reached, or does not answer.
    """
    return read_boot(machine.run(["sh", "-c", ASK], timeout_s=_TIMEOUT_S).stdout)


def read_boot(text: str) -> BootTimes:
    """Read what the command printed; of what is not understood, nothing."""
    uptime = _UPTIME.search(text)
    if uptime is None:
        return BootTimes(FrozenDict())
    since: dict[BootPhase, float] = {}
    said = {name: int(us) / 1e6 for name, us in _PROPERTY.findall(text)}
    if userspace := said.get("Userspace"):
        # Of firmware and loader systemd says how long before the kernel they began; 0 is what it does not know.
        for name, phase in (("Firmware", "firmware"), ("Loader", "loader")):
            if before := said.get(name):
                since[phase] = -before  # type: ignore[index]
        since["kernel"] = 0.0
        logged = _LOGGED.search(text)
        initrd = said.get("InitRD") or (float(logged[1]) if logged else 0.0)
        if 0 < initrd < userspace:
            since["initrd"] = initrd
        since["units"] = userspace
    for name, rest in _STAT.findall(text):
        fields = rest.split()
        if len(fields) > _START_FIELD and fields[_START_FIELD].isdecimal():
            since["slurmd" if name == "slurmd" else "units"] = int(fields[_START_FIELD]) / _TICKS_PER_S
    now = float(uptime[1])
    return BootTimes(
        FrozenDict({phase: max(0.0, now - since[phase]) for phase in BOOT_PHASES if phase in since})
    )
