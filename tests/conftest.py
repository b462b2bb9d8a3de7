"""What holds for all tests."""

from __future__ import annotations

import gc
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
from tests.toolchain import left_out, why_missing
from tidepool.toolchain import MODULES

# On the same examples each time, unless somebody hunts: what fails is what was changed. And a property does not claim
# how long it takes: on a busy machine each takes long once in a while.
settings.register_profile("tidepool", deadline=None, derandomize=not HUNTED)
settings.load_profile("tidepool")

# Collecting tests makes a million objects and hardly garbage, and looking for that takes a third of its time.
_THRESHOLD = gc.get_threshold()
gc.set_threshold(100_000, 50, 1000)

# A shell has what it starts in the background ignore interrupts, and all that tests start and interrupt would.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# And `nohup` hangups: what tests start is to hear them, while the run itself goes on.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_collection_finish() -> None:
    """From here on it is looked for in what tests leave behind, as anywhere."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLD)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say plainly, at the end, what was left out for want of a toolchain."""
    reasons = [str(report.longrepr) for report in terminalreporter.getreports("skipped")]
    for module in MODULES.values():
        count = sum(left_out(module) in reason for reason in reasons)
        if count:
            terminalreporter.section(f"left out: {module.title}")
            terminalreporter.line(f"tests that need it and were left out: {count}. {why_missing(module)}")
