"""The machine behind a connection: facts that are known without running anything on it, and its slurmd."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tidepool.clients.slurm import SlurmError, Transport
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.local import kernel
from tidepool.resources.reading import Mistake

Connection = Mapping[str, Any]
_LOG_LINES: Final = 15


def connection_mistakes(connections: Mapping[str, Connection], data: Path) -> Iterator[Mistake]:
    """Yield a mistake for each connection that leads nowhere, by the key of the input that it is."""
    for key, connection in connections.items():
        try:
            transport(connection, data)
        except ValueError as error:
            yield Mistake(key, str(error))


def local_machine(connection: Connection) -> tuple[str, str] | None:
    """Return the stack and the name of a machine of this machine; None of all others."""
    match connection:
        case {"kind": "local", "stack": str(stack), "machine": str(name)}:
            return stack, name
    return None


def machine_runs(connection: Connection, data: Path) -> bool:
    """Return whether the machine runs, frozen or not; of one that cannot be known so, that it does."""
    local = local_machine(connection)
    return local is None or _pid(local, data) is not None


def machine_is_gone(connection: Connection, data: Path) -> bool:
    """Return whether there is no such machine, and no disk of it; of one that cannot be known so, that it is not."""
    local = local_machine(connection)
    return local is not None and kernel.read_machine(data, *local) is None


def booted_at(connection: Connection, data: Path) -> datetime | None:
    """Return when the machine's present boot began; None where that cannot be known."""
    local = local_machine(connection)
    pid = _pid(local, data) if local is not None else None
    return kernel.started_at(pid) if pid is not None else None


def boot_log_end(connection: Connection, data: Path) -> str:
    """Return the last lines of the machine's boot log; empty where there are none."""
    local = local_machine(connection)
    try:
        return kernel.boot_log(data, *local, _LOG_LINES) if local is not None else ""
    except kernel.NoSuchMachine:
        return ""


def _pid(local: tuple[str, str], data: Path) -> int | None:
    found = kernel.read_machine(data, *local)
    return found.pid if found is not None else None


#: As Tidepool's slurm.conf has it.
_PID_FILE: Final = "/run/slurmd.pid"
_TIMEOUT_S: Final = 10.0
_STEP = re.compile(r"slurmstepd: \[(\d+)\.")


def read_pid(host: Transport, path: str) -> int | None:
    """Return the process that a file on ``host`` names; None where there is none.

    Raises:
        SlurmError: the host cannot be reached.
    """
    read = host.run(["cat", path], timeout_s=_TIMEOUT_S)
    text = read.stdout.strip()
    return int(text) if read.exit_code == 0 and text.isdecimal() else None


@dataclass(frozen=True, slots=True)
class Slurmd:
    """The slurmd on ``host``."""

    host: Transport

    def pid(self) -> int | None:
        """Its process there; None where it does not run, or cannot be asked for."""
        try:
            return read_pid(self.host, _PID_FILE)
        except SlurmError:
            return None

    def restart_if_still(self, pid: int | None) -> int | None:
        """Have it end where it is still the process ``pid``, so that its supervisor starts it again.

        Gives the process that runs and was not ended.
        """
        now = self.pid()
        if now is None or now != pid:
            return now
        try:
            self.host.run(["kill", "-TERM", str(now)], timeout_s=_TIMEOUT_S)
        except SlurmError:
            return now  # who waits for it looks again
        return None

    def job_ids(self) -> tuple[int, ...]:
        """The jobs whose steps run there; no controller is asked. None where the machine is gone.

        Raises:
            SlurmError: the machine is there, and cannot be asked.
        """
        listed = self.host.run(["ps", "-C", "slurmstepd", "-o", "args="], timeout_s=_TIMEOUT_S)
        return tuple(sorted({int(found[1]) for found in _STEP.finditer(listed.stdout)}))
