"""How long tests wait for emulated machines: by what the emulator got to do, and not by the clock.

On a machine with other work an emulator may get a hundredth of a processor. It is not broken for that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

#: A boot up to a node that runs a job takes 50 to 90 seconds of a processor.
BOOT_CPU_S: Final = 300.0
#: And by the clock, an emulator that waits for what never comes needs no processor.
BOOT_S: Final = 1800.0


def until_booted(is_up: Callable[[], bool], cpu_s: Callable[[], float], told: Callable[[], str]) -> None:
    """Wait until ``is_up``; where it does not come to that, fail with what is ``told``, and how much it got to do."""
    began = time.monotonic()
    while not is_up():
        got, waited = cpu_s(), time.monotonic() - began
        assert got < BOOT_CPU_S, f"not up after {got:.0f} s of a processor, in {waited:.0f} s\n{told()}"
        assert waited < BOOT_S, (
            f"not up after {waited:.0f} s, in which it got {got:.1f} s of a processor\n{told()}"
        )
        time.sleep(3.0)  # a look by SSH is a second of an emulated processor


def cpu_s_of(pid: int) -> float:
    """How many seconds of a processor a process has had, in all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
