"""What every test needs is there in CI, so a test that skips itself there fails, but for what `MAY_SKIP` lists.

`.ci/run` says so by ``TIDEPOOL_TESTS_MUST_RUN``; where nobody says so, tests skip themselves for want of what they need.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Mapping
from typing import Final

import pytest

MUST_RUN: Final = "TIDEPOOL_TESTS_MUST_RUN"

#: What a test may say when it skips itself, and why CI does without it.
MAY_SKIP: Final[Mapping[str, str]] = {
    "there is no UEFI for virtual machines": "booted in software it takes minutes; run by hand (docs/images.md)",
    "a disk written in software takes minutes": "run by hand (docs/infrastructures/metal.md); its program is tested at loop devices",
    "this scheduler has no": "not every scheduler has every feature of the contract; its `can` says which",
    "no registry has Flux": "run by hand (docs/benchmarks/schedulers_flux.md); CI replays what it answered",
    "there is no kubectl on PATH": "neither scripts/packages nor the toolchain has it; our own client goes the same way",
    "no control groups of version 2 are mounted": "the kernel's choice; where it has version 1, that is tested",
    "Debian's testing is not to be had": "it moves on each day, and may have another Slurm, or be in between",
    "all nodes of one loopback call from one address": "nodes of Slurm 24.11 run in tests/whole/test_slurm_24.py",
    "this kernel has no client of Lustre": "no Debian has one, and no registry a server (docs/files.md)",
    "this host enforces quotas of projects": "then others are run on it; most hosts of tests have none",
    "this machine gives no loop device": "a disk of a test's own is a loop device; a container may have none",
    "this host has no network": "a host's routes are its own, and may be single addresses or a default alone",
}


def fails(reason: str) -> bool:
    """Whether a test that says that may not skip itself here."""
    return bool(os.environ.get(MUST_RUN)) and not any(said in reason for said in MAY_SKIP)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not hasattr(report, "wasxfail"):
        _hold(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Of modules that skip themselves as a whole."""
    report = yield
    _hold(report)
    return report


def _hold(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped:
        return
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = re.sub(r"^Skipped: ", "", said)
    if fails(reason):
        report.outcome = "failed"
        report.longrepr = (
            f"{report.nodeid} was skipped, and {MUST_RUN} says that it must run: {reason}\n"
            "What may be skipped is listed in tests/must_run.py."
        )
