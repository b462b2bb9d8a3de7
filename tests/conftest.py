"""What holds for all tests."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

from tests.must_run import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401 - hooks
from tests.properties import HUNTED
from tests.schedule import (  # noqa: F401 - hooks
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_xdist_make_scheduler,
)
from tests.toolchain import LEFT_OUT, MISSING

# On the same examples each time, unless somebody hunts: what fails is what was changed. And a property does not claim
# how long it takes: on a busy machine each takes long once in a while.
settings.register_profile("tidepool", deadline=None, derandomize=not HUNTED)
settings.load_profile("tidepool")

# A shell has what it starts in the background ignore interrupts, and all that tests start and interrupt would.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say plainly, at the end, what was left out for want of the toolchain."""
    if MISSING is None:
        return
    skipped = terminalreporter.getreports("skipped")
    left_out = sum(1 for report in skipped if LEFT_OUT in str(report.longrepr))
    terminalreporter.section("left out")
    terminalreporter.line(f"tests that need a real Kubernetes and were left out: {left_out}. {MISSING}")
