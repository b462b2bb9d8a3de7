"""Hostlists, until `tidepool.cluster.hostlist` is there, whose `expand` takes this function's place."""

from __future__ import annotations

import re
from itertools import product

_ITEM = re.compile(r"(?:[^\s,\[\]]+|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\]]*)\]|([^\[]+)")


def expanded(hostlist: str) -> list[str]:
    """The names of ``cpu-[1-3,07],login``, in its order.

    Raises:
        ValueError: it cannot be read.
    """
    if _ITEM.sub("", hostlist).strip(" ,\n"):
        raise ValueError(f"{hostlist!r} is no hostlist")
    return ["".join(combined) for item in _ITEM.findall(hostlist) for combined in product(*_parts(item))]


def _parts(item: str) -> list[list[str]]:
    return [_numbers(ranges) if ranges else [literal] for ranges, literal in _PART.findall(item)]


def _numbers(ranges: str) -> list[str]:
    found = []
    for piece in ranges.split(","):
        first, _, last = piece.partition("-")
        found += [f"{number:0{len(first)}}" for number in range(int(first), int(last or first) + 1)]
    return found
