"""Outputs that a test makes before it registers a program need what registering needs."""

from __future__ import annotations

import pytest

from tidepool.testing import ensure_event_loop


@pytest.fixture(autouse=True)
def event_loop_of_the_thread() -> None:
    """There is one, as there is in a program."""
    ensure_event_loop()
