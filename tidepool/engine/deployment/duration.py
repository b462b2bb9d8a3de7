"""Go's durations (``1h30m``, ``1.5s``), in which Pulumi's time-outs are written."""

from __future__ import annotations

import re
from typing import Final

_UNITS_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> float:
    """The duration in seconds; 0 for an empty text.

    Raises:
        ValueError: with the text, where it is not a duration.
    """
    if text in ("", "0"):
        return 0.0
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text.lstrip("+-")
    total = 0.0
    while rest:
        match = _PART.match(rest)
        if match is None:
            raise ValueError(text)
        total += float(match[1]) * _UNITS_S[match[2]]
        rest = rest[match.end() :]
    return sign * total
