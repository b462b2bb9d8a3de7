"""`tidepool down --force`, as providers are told of it: by an environment variable, for an operation has no other arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_VARIABLE: Final = "TIDEPOOL_REGARDLESS"
#: What says it.
SETTINGS: Final[Mapping[str, str]] = {_VARIABLE: "1"}


def is_forced(environment: Mapping[str, str]) -> bool:
    """Return whether what is deleted goes with all that runs there, and without those that do not answer."""
    return environment.get(_VARIABLE) == SETTINGS[_VARIABLE]
