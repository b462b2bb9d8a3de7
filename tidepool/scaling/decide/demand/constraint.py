"""Features and how jobs ask for them: the language of ``--constraint`` (sbatch(1), measured with Slurm 22.05.8).

``a&b``, ``a,b`` and ``a|b`` are read from left to right, as Slurm does: ``a|b&c`` is ``(a|b)&c``. Parentheses do not
nest. In brackets stands what holds for nodes together: ``[a|b]``: all nodes have the same of these; ``[a*2&b*3]``: at
least two nodes with the one and three with the other. ``x&a*2``: all have x, and at least two of them a.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

_SYMBOL = re.compile(r"[&|,()\[\]*]|[^&|,()\[\]*\s]+")
_OPERATORS = ("&", "|")


class CannotTell(ValueError):
    """The request of a job cannot be known. The text says what, as part of a sentence."""


@dataclass(frozen=True, slots=True)
class Words:
    """Features of one node, joined from left to right: ``operators`` stand between ``terms``."""

    terms: tuple[str | Words, ...]
    operators: tuple[str, ...] = ()

    def hold(self, features: frozenset[str]) -> bool:
        found = True
        for operator, term in zip(("&", *self.operators), self.terms, strict=False):
            has = term.hold(features) if isinstance(term, Words) else term in features
            found = found and has if operator == "&" else found or has
        return found


_NO_WORDS = Words(())


@dataclass(frozen=True, slots=True)
class Constraint:
    """Requirements on the nodes of a job.

    Each of them has ``every``; besides, all have the same of ``alike``; or, at least so many have each of ``counts``.
    ``exactly``: all nodes are of those counted (brackets); else others, with ``every`` alone, may make up the number.
    """

    every: Words = _NO_WORDS
    alike: tuple[Words, ...] = ()
    counts: tuple[tuple[Words, int], ...] = ()
    exactly: bool = False

    @property
    def least_nodes(self) -> int:
        """Return how many nodes it asks for by itself."""
        return sum(count for _, count in self.counts)

    def choices(self, nodes: int, fleets: Mapping[str, frozenset[str]]) -> Iterator[tuple[Choice, ...]]:
        """The ways to take ``nodes`` nodes, at least `least_nodes`, of fleets with such features."""
        fit = [name for name, features in fleets.items() if self.every.hold(features)]

        def those(words: Words) -> tuple[str, ...]:
            return tuple(name for name in fit if words.hold(fleets[name]))

        if self.alike:
            for words in self.alike:
                yield ((nodes, those(words)),)
            return
        counted = [(count, those(words)) for words, count in self.counts]
        if more := nodes - self.least_nodes:
            any_of = {name for _, names in counted for name in names} if self.exactly else set(fit)
            counted.append((more, tuple(name for name in fit if name in any_of)))
        yield tuple(counted)


Choice = tuple[int, tuple[str, ...]]
"""So many nodes, each of one of these fleets."""


@lru_cache(maxsize=4096)
def parse(written: str) -> Constraint:
    """Read what squeue shows of a job's features.

    Raises:
        CannotTell: it is not of Slurm 22.05's language.
    """
    symbols = ["&" if each == "," else each for each in _SYMBOL.findall(written)]
    while symbols and symbols[-1] in _OPERATORS:  # Slurm takes `a&`, and means `a`.
        symbols.pop()
    if not symbols:
        return Constraint()
    if any(symbol.startswith("!") for symbol in symbols):
        raise CannotTell(f"asks for the features {written!r}, and Slurm 22.05 has no '!'")
    reading = _Reading(written, symbols)
    found = reading.constraint()
    if reading.left:
        raise reading.fault()
    return found


class _Reading:
    """A walk over the symbols; each method takes those of its part from the front."""

    def __init__(self, written: str, symbols: Iterable[str]) -> None:
        self._written = written
        self.left = list(symbols)

    def constraint(self) -> Constraint:
        terms: list[str | Words] = []
        operators: list[str] = []
        alike: tuple[Words, ...] = ()
        counts: list[tuple[Words, int]] = []
        exactly = False
        operator = "&"
        while True:
            if self._next() == "[":
                if alike or counts or operator == "|":
                    raise self.fault()
                alike, bracketed = self._brackets()
                counts, exactly = list(bracketed), bool(bracketed)
            else:
                term, count = self._counted()
                if count is None:
                    terms.append(term)
                    operators.append(operator)
                elif alike or counts or operator == "|":
                    # Slurm refuses several counts without brackets, or finds no nodes for them.
                    raise self.fault()
                else:
                    counts = [(_words(term), count)]
            if not self.left or self._next() not in _OPERATORS:
                break
            operator = self._take()
            if operator == "|" and (alike or counts):
                raise self.fault()
        return Constraint(Words(tuple(terms), tuple(operators[1:])), alike, tuple(counts), exactly)

    def _brackets(self) -> tuple[tuple[Words, ...], tuple[tuple[Words, int], ...]]:
        self._take()
        read = [self._counted()]
        between = set()
        while self._next() in _OPERATORS:
            between.add(self._take())
            read.append(self._counted())
        if self._take() != "]":
            raise self.fault()
        counts = [(_words(term), count) for term, count in read if count is not None]
        if not counts and between <= {"|"}:
            return tuple(_words(term) for term, _ in read), ()
        if len(counts) == len(read) and between <= {"&"}:
            return (), tuple(counts)
        raise self.fault()

    def _counted(self) -> tuple[str | Words, int | None]:
        term = self._term()
        if self._next() != "*":
            return term, None
        self._take()
        count = self._take()
        if not count.isdecimal() or int(count) == 0:
            raise self.fault()
        return term, int(count)

    def _term(self) -> str | Words:
        if self._next() != "(":
            return self._feature()
        self._take()
        terms: list[str | Words] = [self._feature()]
        operators = []
        while self._next() in _OPERATORS:
            operators.append(self._take())
            terms.append(self._feature())
        if self._take() != ")":
            raise self.fault()
        return Words(tuple(terms), tuple(operators))

    def _feature(self) -> str:
        word = self._take()
        if not word or word in "&|()[]*":
            raise self.fault()
        return word

    def _next(self) -> str:
        return self.left[0] if self.left else ""

    def _take(self) -> str:
        return self.left.pop(0) if self.left else ""

    def fault(self) -> CannotTell:
        return CannotTell(f"asks for the features {self._written!r}, which cannot be read")


def _words(term: str | Words) -> Words:
    return term if isinstance(term, Words) else Words((term,))
