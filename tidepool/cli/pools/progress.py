"""How far conversions are, as lines that come when something changed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from tidepool.cli.scaler.conversion_words import holds, phase_words, what_comes
from tidepool.cluster.hostlist import fold
from tidepool.conversion.record import Conversion

_Key = tuple[str, tuple[str, ...], str]


class Progress:
    """What was told of which machine. Machines of which the same is to be told share a line."""

    def __init__(self, begun: datetime) -> None:
        self._begun = begun
        self._told: dict[str, _Key] = {}

    def lines(self, seen: Sequence[Conversion], now: datetime) -> Iterator[str]:
        """``  1.2 s  shared-[1-3]: waits for its work to end``, with what each waits for below it."""
        groups: dict[_Key, list[str]] = {}
        for each in sorted(seen, key=lambda one: one.id):
            key = (
                phase_words(each),
                tuple(holds(each)),
                what_comes(each, now) if each.phase == "emptying" else "",
            )
            if self._told.get(each.order.node) != key:
                self._told[each.order.node] = key
                groups.setdefault(key, []).append(each.order.node)
        passed_s = (now - self._begun).total_seconds()
        for (phase, held, comes), names in groups.items():
            yield f"{passed_s:5.1f} s  {fold(names)}: {phase}"
            for line in held:
                yield f"         {line}"
            if held and comes:
                yield f"         {comes}"
