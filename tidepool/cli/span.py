"""Times as a person writes them on a command line."""

from __future__ import annotations

import re
from typing import Final

import click

_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|min|h|d)?")
_UNITS_S: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


class Span(click.ParamType[float]):
    """A time such as 90, 90s, 10m, 2h or 1d; in seconds."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        found = _SPAN.fullmatch(str(value).strip())
        if found is None or float(found[1]) == 0:
            self.fail(f"{value!r} is no time; write 90s, 10m, 2h or 1d", param, ctx)
        return float(found[1]) * _UNITS_S[found[2] or "s"]
