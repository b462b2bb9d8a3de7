"""The grammar of hostlists: from text to names in its order, with the mistake's place where it cannot be read.

See `tidepool.cluster.hostlist` for what a hostlist is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Final

#: More names than a person means: a list that stands for more is refused before it takes any memory.
LIMIT: Final = 1_000_000
#: Slurm counts with 64 bits, and reads longer numbers wrongly without a word.
MOST_DIGITS: Final = 18

# Without re.ASCII, blanks of other scripts would separate names for us, and not for Slurm.
_FOREIGN = re.compile(r"[^A-Za-z0-9._\-\[\]\s,]", re.ASCII)
_ITEM = re.compile(r"(?:[^\s,\[\]]+|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\]]*)\]|([^\[]+)")
_SEPARATORS = re.compile(r"[\s,]*")


class HostlistError(ValueError):
    """A hostlist that cannot be read: where in the text, and what was expected there.

    ``position`` counts characters from 0; the message, which is for people, counts from 1.
    """

    def __init__(self, text: str, position: int, expected: str) -> None:
        start = max(0, position - 20)
        around = (
            ("..." if start else "") + text[start : start + 60] + ("..." if len(text) > start + 60 else "")
        )
        super().__init__(f'hostlist "{around}", character {position + 1}: {expected}')
        self.text = text
        self.position = position
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Range:
    """``first`` to ``last``, both included, written with at least ``width`` digits."""

    first: int
    last: int
    width: int

    def __len__(self) -> int:
        return self.last - self.first + 1

    def numbers(self) -> list[str]:
        numbers = range(self.first, self.last + 1)
        if self.first >= 10 ** (self.width - 1) or self.width == 1:
            return list(map(str, numbers))
        padded = f"%0{self.width}d"
        return [padded % n for n in numbers]

    def by_digits(self) -> Iterator[tuple[int, int, int]]:
        """The range, cut where its numbers get longer: (digits, first, last)."""
        digits, first = self.width, self.first
        while first <= self.last:
            end = 10**digits - 1
            if first <= end:
                yield digits, first, min(end, self.last)
                first = end + 1
            digits += 1


Part = str | tuple[Range, ...]
"""A piece of a name: text as it is, or the ranges of one pair of brackets."""
Item = tuple[Part, ...]


def expand(text: str, limit: int = LIMIT) -> list[str]:
    """The names of the hostlist ``text``, in its order and with its repetitions, as ``scontrol show hostnames``.

    Raises:
        HostlistError: when it cannot be read, or stands for more than ``limit`` names.
    """
    if "[" not in text and "]" not in text:
        _check_characters(text)
        names = text.replace(",", " ").split()
        check_limit(text, len(names), limit)
        return names
    items = parse(text)
    check_limit(text, sum(map(size, items)), limit)
    return [name for item in items for name in combinations(item)]


def count(text: str) -> int:
    """Count the names that the hostlist ``text`` stands for, repetitions too; without making them.

    Raises:
        HostlistError: when it cannot be read.
    """
    return sum(map(size, parse(text)))


def parse(text: str) -> list[Item]:
    """The items of ``text``, in its order."""
    _check_characters(text)
    items: list[Item] = []
    end = 0
    for match in _ITEM.finditer(text):
        _check_gap(text, end, match.start())
        end = match.end()
        parts = _PART.finditer(match.group())
        items.append(
            tuple(
                part.group(2) or _parse_ranges(text, match.start() + part.start(1), part.group(1))
                for part in parts
            )
        )
    _check_gap(text, end, len(text))
    return items


def _check_characters(text: str) -> None:
    if foreign := _FOREIGN.search(text):
        if foreign.group() in "{}":
            expected = "functions such as feature{gpu} are known to a running slurmctld only; write the names"
        else:
            expected = f"{foreign.group()!r} is in no node name; letters, digits, '.', '_' and '-' are"
        raise HostlistError(text, foreign.start(), expected)


def _check_gap(text: str, start: int, end: int) -> None:
    """Refuse what stands between two items and does not separate them, such as half a pair of brackets."""
    separators = _SEPARATORS.match(text, start, end)
    place = separators.end() if separators else start
    if place == end:
        return
    if text[place] == "]":
        raise HostlistError(text, place, "this ] closes nothing; put a [ before the range, or leave it out")
    if "[" in text[place + 1 :].partition("]")[0]:
        raise HostlistError(
            text, place, "brackets inside of brackets; write the ranges side by side: [1-2,5-6]"
        )
    raise HostlistError(text, place, "this [ is not closed; put a ] after the range")


def _parse_ranges(text: str, position: int, inside: str) -> tuple[Range, ...]:
    """Read what stands in one pair of brackets, which begins at ``position`` in ``text``."""
    ranges = []
    for piece in inside.split(","):
        first, dash, last = piece.partition("-")
        for number in (first, last) if dash else (first,):
            if not (number.isascii() and number.isdigit()):
                raise HostlistError(
                    text,
                    position,
                    f'expected a number such as 7, or a range such as 1-16, but found "{piece}"',
                )
            if len(number) > MOST_DIGITS:
                raise HostlistError(
                    text, position, f"{number} has more digits than Slurm can count with ({MOST_DIGITS})"
                )
        lowest, highest = int(first), int(last if dash else first)
        if lowest > highest:
            raise HostlistError(
                text, position, f"the range {piece} runs backwards; write the smaller number first"
            )
        ranges.append(Range(lowest, highest, len(first)))
        position += len(piece) + 1
    return tuple(ranges)


def size(item: Item) -> int:
    """Count the names that it stands for."""
    return prod(sum(map(len, part)) for part in item if not isinstance(part, str))


def check_limit(text: str, names: int, limit: int) -> None:
    """Refuse a list of too many names.

    Raises:
        HostlistError: ``names``, for which ``text`` stands, are more than ``limit``.
    """
    if names > limit:
        raise HostlistError(text, 0, f"it stands for {names:,} names, and at most {limit:,} are allowed here")


def combinations(parts: Item) -> list[str]:
    """The names that it stands for, the last range turning fastest."""
    names = [""]
    for part in parts:
        if isinstance(part, str):
            names = [name + part for name in names]
        else:
            numbers = [number for r in part for number in r.numbers()]
            names = [name + number for name in names for number in numbers]
    return names
