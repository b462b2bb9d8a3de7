"""The course of a demo: a stack comes up, something runs on it beside a scaler, and a person is told what came of it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console, RenderableType

from demo.scaler import ScalerError, scaler, until_it_leads
from tidepool.charts import DrawingError
from tidepool.clients.kubernetes.contract import KubernetesError
from tidepool.clients.slurm import SlurmError, Transport
from tidepool.conversion.ports import ConversionError
from tidepool.infrastructures.connection import data_folder, transport
from tidepool.infrastructures.kubernetes_access import NoAccess
from tidepool.scaling.journal import open_journal
from tidepool.scaling.ports import Journal, JournalError

_TIDEPOOL: Final = str(Path(sys.executable).with_name("tidepool"))
_SUDO: Final = "sudo " if "SUDO_UID" in os.environ else ""
#: What ends a demo with its words alone.
_ERRORS: Final = (
    ConversionError,
    DrawingError,
    JournalError,
    KubernetesError,
    NoAccess,
    OSError,
    ScalerError,
    SlurmError,
)


@dataclass(frozen=True, slots=True)
class Came:
    """Outcome of a demo: ``tables`` and ``lines`` for a person, what is ``wrong``, and what is said where nothing is.

    ``go_on`` is what a person may do then, with places for ``tidepool`` and ``stack``.
    """

    tables: tuple[RenderableType, ...]
    lines: tuple[str, ...]
    wrong: tuple[str, ...]
    verdict: str
    go_on: str


@dataclass(frozen=True, slots=True)
class Course:
    """A demo. ``runs`` does what is shown on a stack, at most so many of its ``parts``, and writes charts into a folder."""

    module: str
    told: str
    stack: str
    parts: str
    runs: Callable[[str, Console, int | None, Path], Came]

    def main(self, arguments: list[str] | None = None) -> int:
        """Run it; gives the exit code: 0 where all was as it should be."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=self.told)
        parser.add_argument("--stack", default=self.stack)
        parser.add_argument(
            "--charts", type=Path, default=Path("charts"), help="the folder for tables and charts"
        )
        parser.add_argument(
            f"--{self.parts}",
            dest="parts",
            metavar="COUNT",
            type=int,
            help=f"only so many of the {self.parts}",
        )
        said = parser.parse_args(arguments)
        console = Console(highlight=False)
        begun = time.monotonic()
        up = subprocess.run([_TIDEPOOL, "--stack", said.stack, "up", "--yes"], check=False)
        if up.returncode:
            return 1
        up_s = time.monotonic() - begun
        try:
            came = self.runs(said.stack, console, said.parts, said.charts)
        except _ERRORS as error:
            sys.stderr.write(f"{error}\n")
            return 1
        except KeyboardInterrupt:
            sys.stderr.write(
                "interrupted; what was submitted is still there, and nodes and machines stay as they are\n"
            )
            return 130
        for table in came.tables:
            console.print(table)
        for line in (*came.lines, *(f"WRONG: {each}" for each in came.wrong)):
            console.print(line, markup=False, soft_wrap=True)
        verdict = "Not all was as it should be." if came.wrong else came.verdict
        ran_s = time.monotonic() - begun - up_s
        console.print(
            f"\n{verdict} The cluster took {up_s:.1f} s, the {self.parts} {ran_s:.1f} s.\n", soft_wrap=True
        )
        told = came.go_on.format(tidepool=f"{_SUDO}.venv/bin/tidepool", stack=said.stack)
        console.print(told, markup=False, soft_wrap=True)
        return 1 if came.wrong else 0


@dataclass(frozen=True, slots=True)
class Led:
    """A cluster whose scaler leads: a way to where researchers log in, and the scaler's journal."""

    login: Transport
    journal: Journal
    data: Path


@contextmanager
def led(stack: str) -> Iterator[Led]:
    """The stack's cluster, with a scaler beside it for as long as this lasts.

    Raises:
        ScalerError: nobody leads, or the scaler did not end well.
    """
    data = data_folder(os.environ)
    folder = data / stack / "scaler"
    log = folder / "demo.log"
    login = transport({"kind": "local", "stack": stack, "machine": "login-1"}, data)
    with closing(login), closing(open_journal(folder, os.environ, stack=stack)) as journal:
        since_s = time.time()
        with scaler(_TIDEPOOL, stack, log) as child:
            until_it_leads(child, journal, since_s, log)
            yield Led(login, journal, data)
