"""Times of a boot as machines tell them: what is read of them, whatever they print, and what is asked of this very machine."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.clients.transport import Completed
from tidepool.infrastructures.boot_times import BOOT_PHASES, BootPhase, ask_boot, read_boot

_STAT = "0 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 {ticks} 1 1"
_BY_SYSTEMD = """\
slurmd 712 (slurmd) S 1 712 712 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 1950 1 1
FirmwareTimestampMonotonic={firmware}
LoaderTimestampMonotonic={loader}
InitRDTimestampMonotonic=0
UserspaceTimestampMonotonic=9000000
{log}uptime 30.00 50.00
"""


def told(firmware: int = 0, loader: int = 0, log: str = "") -> str:
    return _BY_SYSTEMD.format(firmware=firmware, loader=loader, log=log)


def test_a_machine_that_systemd_starts_tells_all_that_its_firmware_knows() -> None:
    log = "[    5.500000] Run /init as init process\n"
    assert read_boot(told(4_000_000, 1_500_000, log)).ages == {
        "firmware": 34.0,
        "loader": 31.5,
        "kernel": 30.0,
        "initrd": 24.5,
        "units": 21.0,
        "slurmd": 10.5,
    }


def test_what_firmware_does_not_say_is_missing_and_not_zero() -> None:
    assert set(read_boot(told()).ages) == {"kernel", "units", "slurmd"}


def test_a_root_that_is_the_initrd_has_no_initrd_before_it() -> None:
    assert "initrd" not in read_boot(told(log="[    9.100000] Run /init as init process\n")).ages


def test_a_container_tells_of_its_first_process_and_of_slurmd() -> None:
    text = "slurmd 9 (slurmd) S 1 9 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 9900 1 1\n"
    text += (
        "first 1 (python3 (x) y) S 0 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 9700 1 1\nuptime 100.50 3.0\n"
    )
    assert read_boot(text).ages == {"units": 3.5, "slurmd": 1.5}


@pytest.mark.parametrize(
    "text", ["", "slurmd \nfirst \n", "uptime 3\n", "first 1 (x) S 0\nuptime 3.00 1.00\n"]
)
def test_what_is_not_understood_is_not_told(text: str) -> None:
    assert read_boot(text).ages == {}


@given(st.text() | st.builds(told, st.integers(0, 10**8), st.integers(0, 10**8), st.text(max_size=40)))
def test_ages_are_of_phases_in_their_order_and_never_negative(text: str) -> None:
    ages = read_boot(text).ages
    assert list(ages) == [phase for phase in BOOT_PHASES if phase in ages]
    assert all(age >= 0 for age in ages.values())


class Here:
    """Runs commands on this machine."""

    where = "here"

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout_s)
        return Completed(done.returncode, done.stdout, done.stderr)

    def close(self) -> None: ...


def test_a_real_machine_is_asked_by_one_command() -> None:
    ages = ask_boot(Here()).ages
    first: BootPhase = "units"
    assert first in ages, "each machine has a first process"
