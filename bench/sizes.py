"""A measurement of several sizes, each in a process of its own, whose peak of memory is that size's; the results as a table."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from bench.engine import machine
from bench.page import add_page_option

#: A dataclass of numbers and texts.
Figures = TypeVar("Figures")


@dataclass(frozen=True, slots=True)
class BySize(Generic[Figures]):
    """What is measured by the program ``script``, whose docstring is ``told``.

    ``measure`` is given a size, how many rounds, and one of ``variants``, by which the sizes are measured one after the other;
    ``figures`` is what it gives, and ``table`` what is made of all of them.
    """

    script: str
    told: str | None
    sizes: str
    rounds: int
    measure: Callable[[int, int, str], Figures]
    figures: type[Figures]
    table: Callable[[Sequence[Figures]], str]
    variants: tuple[str, ...] = ("",)
    #: In words, the targets that figures miss; with one, the exit code is 1.
    missed: Callable[[Sequence[Figures]], Sequence[str]] = lambda _: ()

    def main(self) -> None:
        """Measure, and print or write the table."""
        parser = argparse.ArgumentParser(
            description=self.told, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--sizes", default=self.sizes)
        parser.add_argument("--rounds", type=int, default=self.rounds)
        parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
        parser.add_argument("--variant", default="", help=argparse.SUPPRESS)
        add_page_option(parser)
        options = parser.parse_args()
        if options.one:
            measured: Any = self.measure(options.one, options.rounds, options.variant)
            print(json.dumps(asdict(measured)))
            return
        sizes = [int(size) for size in options.sizes.split(",")]
        found = [self._alone(size, options.rounds, each) for each in self.variants for size in sizes]
        report = (
            f"{time.strftime('%Y-%m-%d')}, {machine()}, {options.rounds} rounds.\n\n{self.table(found)}\n"
        )
        print(report)
        if options.write:
            options.write.write(report)
        if missed := self.missed(found):
            sys.exit("\n".join(("targets that were missed:", *missed)))

    def _alone(self, size: int, rounds: int, variant: str) -> Figures:
        argv = [sys.executable, self.script, "--one", str(size), "--rounds", str(rounds)]
        argv += ["--variant", variant] if variant else []
        said: dict[str, Any] = json.loads(
            subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout
        )
        found = self.figures(**said)
        print(found, file=sys.stderr, flush=True)
        return found


def p99(rounds_s: Sequence[float]) -> float:
    """What all but a hundredth of the rounds took at most."""
    ordered = sorted(rounds_s)
    return ordered[min(len(ordered) - 1, -(-len(ordered) * 99 // 100) - 1)]


def peak_mib() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
