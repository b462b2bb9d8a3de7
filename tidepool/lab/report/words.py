"""Figures, intervals and values as texts of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

#: Of a unit those in which it may be written, with their scales, up to which values.
_SCALES: Final[Mapping[str, Sequence[tuple[str, float, float]]]] = {
    "s": (("µs", 1e6, 1e-3),),
    "B": (("KiB", 2.0**-10, 2.0**20), ("MiB", 2.0**-20, float("inf"))),
    "B/s": (("MB/s", 1e-6, 1e9), ("GB/s", 1e-9, float("inf"))),
    "FLOP/s": (("GFLOP/s", 1e-9, float("inf")),),
}


def figure(value: float) -> str:
    """Return a figure with three digits that say something: ``0.0123``, ``4.5``, ``1,234``."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.2e}"


def scale_of(unit: str, values: Iterable[float]) -> tuple[str, float]:
    """Return the unit in which figures are best read, and what they are to be multiplied by for it: ``MiB``, ``µs``."""
    largest = max(map(abs, values), default=0.0)
    return next(((name, scale) for name, scale, most in _SCALES.get(unit, ()) if largest < most), (unit, 1.0))


def interval(middle: float, low: float, high: float) -> str:
    """Return a median with its interval: ``1.2 (1.1 to 1.4)``; alone where all are written alike."""
    first, last = figure(low), figure(high)
    return figure(middle) if first == last == figure(middle) else f"{figure(middle)} ({first} to {last})"


def plain(value: object) -> str:
    """Return a plain value of a file on one line: ``a: 1, b: [2, 3]``."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_nested(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_nested, value))
    return "" if value is None else str(value)


def listed(names: Sequence[str], last: str = "and") -> str:
    """Return names as in a sentence: ``a, b and c``."""
    return f" {last} ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)


def number(count: int, thing: str) -> str:
    """Return how many: ``1 job``, ``2 jobs``."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def different(values: Iterable[str]) -> str:
    """Return values that were seen, each once: ``a; b``."""
    return "; ".join(dict.fromkeys(values))


def _nested(value: object) -> str:
    return f"[{plain(value)}]" if isinstance(value, (Mapping, list, tuple)) else plain(value)
