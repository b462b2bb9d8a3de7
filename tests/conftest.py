"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

from tests.properties import HUNTED

# On the same examples each time, unless somebody hunts: what fails is what was changed. And a property does not claim
# how long it takes: on a busy machine each takes long once in a while.
settings.register_profile("tidepool", deadline=None, derandomize=not HUNTED)
settings.load_profile("tidepool")
