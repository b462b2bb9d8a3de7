"""The table of its services that a machine's first process keeps in a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

#: ``off``: the machine has not its role; ``waiting`` for the one before; ``starting``: not ready yet; ``backing-off`` until it is started again;
#: ``done``: a command that exited 0; ``ended``: one that is started again only when it failed, and exited 0; ``stopping``, ``stopped``: its role ends, or the machine is being shut down.
State = Literal["off", "waiting", "starting", "up", "backing-off", "done", "ended", "stopping", "stopped"]


@dataclass(frozen=True, slots=True)
class ServiceState:
    """A service as it is now. ``pid`` is the one in the machine, 0 where it does not run."""

    name: str
    state: State
    pid: int
    restarts: int
    role: str = ""

    @property
    def is_ready(self) -> bool:
        """Return whether nobody has to wait for it: those of a role that the machine has not are as they should be."""
        return self.state in ("up", "done", "ended", "off")


def service_states(table: Path) -> tuple[ServiceState, ...] | None:
    """The services in their order; None where the table is not there yet."""
    try:
        lines = table.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return None
    if "end" not in lines:
        return None
    return tuple(_service(line) for line in lines[: lines.index("end")])


def _service(line: str) -> ServiceState:
    name, state, pid, restarts, *role = line.split("\t")  # a first process of before wrote no role
    assert state in get_args(State), f"init has a state {state!r} that is not known here"
    return ServiceState(name, cast("State", state), int(pid), int(restarts), *role)
