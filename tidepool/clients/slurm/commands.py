"""Slurm's commands over one transport, each run with a time-out, in a known environment, and judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tidepool.clients.slurm.answer import NOTHING_TO_LIST, judge
from tidepool.clients.slurm.errors import Malformed
from tidepool.clients.transport import Completed, Transport

#: Times in seconds since the epoch, whatever the zone of the machine; indices of arrays in full; words in English.
#: With a zone that is named, the C library does not look its file up again for each time: squeue takes half as long.
_ENVIRONMENT: Final = ("env", "LC_ALL=C", "TZ=UTC0", "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0")

_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class Commands:
    """Runs Slurm's commands over ``transport``, each for ``timeout_s`` seconds at most."""

    transport: Transport
    timeout_s: float

    def run(self, argv: Sequence[str], stdin: str = "") -> Completed:
        """Run the command ``argv``; its end is not judged.

        Raises:
            Unreachable, TimedOut: it did not run, or did not end.
        """
        return self.transport.run([*_ENVIRONMENT, *argv], stdin=stdin, timeout_s=self.timeout_s)

    def run_plainly(self, argv: Sequence[str], stdin: str = "") -> Completed:
        """As `run`, in the transport's environment only: for what a job inherits.

        Raises:
            Unreachable, TimedOut: it did not run, or did not end.
        """
        return self.transport.run(argv, stdin=stdin, timeout_s=self.timeout_s)

    def ask(self, argv: Sequence[str], stdin: str = "") -> str:
        """Return what the command ``argv`` answers.

        Raises:
            SlurmError: it did not run, did not end, or told of an error.
        """
        return judge(argv, self.run(argv, stdin), self.transport.where)

    def show(self, argv: Sequence[str], parse: Callable[[str], _Record]) -> tuple[_Record, ...]:
        """The records that scontrol lists, one on a line.

        Raises:
            SlurmError: as `ask`; `Malformed` where a line is no record, or where there are no lines and scontrol does
                not say that there is nothing to list.
        """
        completed = self.run(argv)
        nothing = NOTHING_TO_LIST.fullmatch(completed.stdout.strip())
        if nothing and completed.exit_code in {0, 1} and not completed.stderr.strip():
            return ()
        answer = judge(argv, completed, self.transport.where)
        lines = answer.splitlines()
        if not lines or not answer.endswith("\n"):
            raise self.malformed(argv, "it is empty, or cut off")
        try:
            return tuple(parse(line) for line in lines if line)
        except (KeyError, ValueError) as fault:
            raise self.malformed(argv, repr(fault)) from fault

    def malformed(self, argv: Sequence[str], why: str) -> Malformed:
        """The answer to ``argv`` cannot be read."""
        return Malformed(
            f"{argv[0]}'s answer is not what was asked for: {why}",
            where=f"{argv[0]} {self.transport.where}",
            remedy="ask again; if it stays, this version of Slurm writes it in another form",
        )
