"""Hostlists: Slurm's way to write many node names in few characters, ``cpu-[1-16,20],rack[1-2]node[01-16]``.

A hostlist is names between commas (blanks and line ends do too). A name may hold ranges in brackets, in several
places: each then stands for every combination, the last range turning fastest. The first number of a range
gives the width that all its numbers are padded to with zeros: ``[08-11]`` is 08, 09, 10, 11 and ``[8-11]`` is
8, 9, 10, 11. Names are told apart by their text, so ``n1`` and ``n01`` are two nodes.

`expand` and `count` read what Slurm reads, in its order and with its repetitions, and a suffix after the last
range (``n[1-2]-ib``), which Slurm reads since 23.11. `fold` and `HostSet` write only what all its releases read:
sorted, each name once, ranges in the last place, none longer than `SLURM_RANGE`. Left out are the box ranges of
multi-dimensional machines (``[000x733]``), gone with the machines, and the functions of newer releases
(``feature{gpu}``), to which only a running slurmctld knows the answer.

Source: the behaviour of ``scontrol show hostnames|hostlist`` (22.05), and slurm.conf(5).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import Final, Self

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


Run = tuple[int, int]
"""The first and the last of numbers in a row."""


def runs_of_numbers(numbers: list[int]) -> list[Run]:
    """The numbers, each of which is there once, as runs."""
    first, last = min(numbers), max(numbers)
    if last - first + 1 == len(numbers):
        return [(first, last)]
    return merged([(number, number) for number in numbers])


def merged(runs: list[Run]) -> list[Run]:
    """``runs`` sorted, those that touch or overlap made one."""
    found: list[Run] = []
    for first, last in sorted(runs):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def without(ones: list[Run], others: list[Run]) -> list[Run]:
    """The numbers of ``ones`` that are not in ``others``."""
    left = []
    j = 0
    for first, last in ones:
        while j < len(others) and others[j][1] < first:
            j += 1
        k = j
        while k < len(others) and others[k][0] <= last:
            if first < others[k][0]:
                left.append((first, others[k][0] - 1))
            first = others[k][1] + 1
            k += 1
        if first <= last:
            left.append((first, last))
    return left


#: The longest range that Slurm reads.
SLURM_RANGE: Final = 65_536

_DIGITS: Final = "0123456789"
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9._\-,]")

_Key = tuple[str, int]
"""The common part of names in a row: the text before their last digits, and how many digits follow it."""


def fold(names: Iterable[str]) -> str:
    """The shortest hostlist of ``names`` that Slurm writes: sorted, each name once.

    Raises:
        HostlistError: when something among them is not one name.
    """
    return str(HostSet.from_names(names))


class HostSet(Collection[str]):
    """A set of node names, kept as ranges: 100,000 names in a row take no more than two.

    It does not change. Iteration and text are in Slurm's order: parts of names that are numbers sort by their
    value, shorter numbers before longer ones, a name without a number before those with one.
    """

    __slots__ = ("_runs",)

    def __init__(self, text: str = "") -> None:
        """Read the hostlist ``text``.

        Raises:
            HostlistError: when it cannot be read, or stands for more than `LIMIT` names.
        """
        if "[" not in text and "]" not in text:
            self._runs = _runs_of_names(expand(text))
            return
        items = parse(text)
        check_limit(text, sum(map(size, items)), LIMIT)
        runs: defaultdict[_Key, list[Run]] = defaultdict(list)
        for item in items:
            _add_runs(item, runs)
        self._runs = {key: merged(found) for key, found in runs.items()}

    @classmethod
    def from_names(cls, names: Iterable[str]) -> Self:
        """The set of ``names``, which are names and not hostlists.

        Raises:
            HostlistError: when something among them is not one name.
        """
        return cls._of(_runs_of_names(names))

    @classmethod
    def _of(cls, runs: dict[_Key, list[Run]]) -> Self:
        made = cls()
        made._runs = runs
        return made

    def __len__(self) -> int:
        return sum(last - first + 1 for runs in self._runs.values() for first, last in runs)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        prefix, digits = _split(name)
        runs = self._runs.get((prefix, len(digits)))
        if runs is None:
            return False
        number = int(digits or 0)
        place = bisect_right(runs, number, key=lambda run: run[0])
        return place > 0 and number <= runs[place - 1][1]

    def __iter__(self) -> Iterator[str]:
        for prefix, digits in self._sorted_keys():
            if not digits:
                yield prefix
                continue
            for first, last in self._runs[prefix, digits]:
                for number in Range(first, last, digits).numbers():
                    yield prefix + number

    def __or__(self, other: HostSet) -> HostSet:
        runs = dict(self._runs)
        for key, added in other._runs.items():
            runs[key] = merged([*runs.get(key, ()), *added])
        return self._of(runs)

    def __and__(self, other: HostSet) -> HostSet:
        return self - (self - other)

    def __sub__(self, other: HostSet) -> HostSet:
        left = ((key, without(runs, other._runs.get(key, []))) for key, runs in self._runs.items())
        return self._of({key: runs for key, runs in left if runs})

    def __le__(self, other: HostSet) -> bool:
        return not self - other

    def __eq__(self, other: object) -> bool:
        return self._runs == other._runs if isinstance(other, HostSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset((key, tuple(runs)) for key, runs in self._runs.items()))

    def __str__(self) -> str:
        items = []
        for prefix, keys in groupby(self._sorted_keys(), lambda key: key[0]):
            numbered = []
            for _, digits in keys:
                if digits:
                    numbered += [(digits, run) for run in self._runs[prefix, digits]]
                else:
                    items.append(prefix)
            if numbered:
                items.append(_bracketed(prefix, numbered))
        return ",".join(items)

    def __repr__(self) -> str:
        return f"HostSet({str(self)!r})"

    def _sorted_keys(self) -> list[_Key]:
        return sorted(self._runs, key=lambda key: (_natural(key[0]), key[1]))


def _split(name: str) -> tuple[str, str]:
    """A name's text, and the digits at its end."""
    prefix = name.rstrip(_DIGITS)
    return prefix, name[len(prefix) :]


def _runs_of_names(names: Iterable[str]) -> dict[_Key, list[Run]]:
    distinct = set(names)
    text = ",".join(distinct)
    if "" in distinct or _NOT_A_NAME.search(text) or text.count(",") >= max(1, len(distinct)):
        wrong = min(name for name in distinct if not name or "," in name or _NOT_A_NAME.search(name))
        raise HostlistError(
            wrong, 0, "expected one node's name, of letters, digits, '.', '_' and '-'; `expand` reads lists"
        )
    by_prefix: defaultdict[str, list[str]] = defaultdict(list)
    for name in distinct:
        by_prefix[name.rstrip(_DIGITS)].append(name)
    runs = {}
    for prefix, group in by_prefix.items():
        by_digits: defaultdict[int, list[str]] = defaultdict(list)
        for name in group:
            by_digits[len(name)].append(name[len(prefix) :])
        for length, numbers in by_digits.items():
            digits = length - len(prefix)
            _check_digits(prefix, digits)
            runs[prefix, digits] = runs_of_numbers(list(map(int, numbers)) if digits else [0])
    return runs


def _check_digits(prefix: str, digits: int) -> None:
    if digits > MOST_DIGITS:
        raise HostlistError(
            prefix, len(prefix), f"{digits} digits follow, and Slurm can count with {MOST_DIGITS} only"
        )


def _add_runs(item: Item, runs: dict[_Key, list[Run]]) -> None:
    """Add the names of ``item`` to ``runs``; its last range is not taken apart."""
    *before, last = item
    if isinstance(last, str):
        for key, found in _runs_of_names(combinations(item)).items():
            runs[key] += found
        return
    for name in combinations(tuple(before)):
        # Digits before a bracket are part of the number: n1[0-9] is n10 to n19.
        prefix, leading = _split(name)
        for numbers in last:
            for digits, first, end in numbers.by_digits():
                _check_digits(prefix, len(leading) + digits)
                above = int(leading or 0) * 10**digits
                runs[prefix, len(leading) + digits].append((above + first, above + end))


def _bracketed(prefix: str, runs: list[tuple[int, Run]]) -> str:
    """The names ``prefix`` + number, as Slurm writes them. ``runs`` has each run with its number of digits."""
    joined: list[Range] = []
    for digits, (first, last) in runs:
        # 99 and 100 stand in one range, though they differ in length, for 100 needs no padding.
        if joined and first == joined[-1].last + 1 and first == 10 ** (digits - 1):
            joined[-1] = Range(joined[-1].first, last, joined[-1].width)
        else:
            joined.append(Range(first, last, digits))
    if len(joined) == 1 and len(joined[0]) == 1:
        return f"{prefix}{joined[0].first:0{joined[0].width}d}"
    pieces = []
    for r in joined:
        for first in range(r.first, r.last + 1, SLURM_RANGE):
            last = min(first + SLURM_RANGE - 1, r.last)
            pieces.append(f"{first:0{r.width}d}" + (f"-{last:0{r.width}d}" if last > first else ""))
    return f"{prefix}[{','.join(pieces)}]"


def _natural(text: str) -> str:
    """A key that sorts text as Slurm does: numbers by their length and value, after numbers with a leading zero.

    Behind the digits stands what sorts before every character of a name, so that 01 comes before 012.
    """
    return re.sub(
        r"[0-9]+",
        lambda run: (
            f"{run.group()}\1" if run.group()[0] == "0" else f"1{chr(1 + len(run.group()))}{run.group()}\1"
        ),
        text,
    )
