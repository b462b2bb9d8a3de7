"""How a machine is reached: a *connection*, as the outputs of a stack say it, and the transport that it leads to.

A connection is a mapping that names a machine and holds no secret::

    {"kind": "local", "stack": "dev", "machine": "ctl"}

It stays true when the machine boots again: what changes with a boot (a process, a port) is looked up by each call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidepool import local
from tidepool.slurm import Completed, Transport, Unreachable
from tidepool.slurm import TimedOut as SlurmTimedOut

#: Everything that Tidepool keeps on this machine, unless TIDEPOOL_DATA says otherwise.
DEFAULT_DATA: Final = Path("/var/lib/tidepool")


def data_folder(environment: Mapping[str, str]) -> Path:
    """The data folder that ``environment`` names, or `DEFAULT_DATA`; absolute."""
    return Path(environment.get("TIDEPOOL_DATA") or DEFAULT_DATA).absolute()


def transport(connection: Mapping[str, Any], data: Path) -> Transport:
    """What runs commands on the machine that ``connection`` names.

    Raises:
        ValueError: it is no connection that is known here.
    """
    match connection:
        case {"kind": "local", "stack": str(stack), "machine": str(machine)}:
            return InMachine(data, stack, machine)
        case _:
            raise ValueError(f"{dict(connection)!r} is no connection; known kinds are: local")


@dataclass(frozen=True, slots=True)
class InMachine:
    """Runs commands as root in a machine of this machine, whichever boot it is in."""

    data: Path
    stack: str
    machine: str

    @property
    def where(self) -> str:
        return f"on machine {self.machine} of stack {self.stack}"

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        try:
            ended = local.execute(self.data, self.stack, self.machine, argv, timeout_s=timeout_s, stdin=stdin)
        except local.NoSuchMachine as error:
            raise Unreachable(str(error), where=self.where, remedy="`tidepool up` boots it again") from error
        except local.TimedOut as error:
            raise SlurmTimedOut(
                str(error), where=self.where, remedy="see its boot log: `tidepool logs`"
            ) from error
        return Completed(ended.code, ended.stdout, ended.stderr)

    def close(self) -> None:
        """Nothing is kept between commands."""
