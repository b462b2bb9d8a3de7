"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A property does not claim how long it takes: on a busy machine each takes long once in a while.
settings.register_profile("tidepool", deadline=None)
settings.load_profile("tidepool")
