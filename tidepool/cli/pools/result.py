"""What conversions came to, as lines and as JSON. A table by rich would take a tenth of a second to import."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from tidepool.cli.scaler.conversion_words import phases, took_s, way, work_words
from tidepool.cli.scaler.document import document
from tidepool.cli.scaler.words import span
from tidepool.conversion.record import Conversion

_COLOURS: Final = {"done": "green", "stopped": "yellow", "failed": "red"}


def as_document(conversion: Conversion) -> Mapping[str, Any]:
    """All that the journal has of it, with the seconds of its phases."""
    return {**document(conversion), "phases": phases(conversion), "tookS": took_s(conversion)}


def lines(conversions: Sequence[Conversion]) -> Iterator[str]:
    """A line for each: ``shared-3: slurm -> kubernetes, done in 1.62 s (holding 0.1 s, ...)``."""
    for each in conversions:
        took = took_s(each)
        spent = ", ".join(f"{name} {span(seconds)}" for name, seconds in phases(each).items())
        after = f" in {took:.2f} s ({spent})" if took is not None else ""
        yield f"{each.order.node}: {way(each)}, {click.style(each.phase, fg=_COLOURS.get(each.phase))}{after}"
        yield from (f"  {work_words(work)}" for work in each.work if work.fate not in ("runs", "ended"))
