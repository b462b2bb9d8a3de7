"""The files of a machine or a network between two calls: its record, and the table of services that its first process keeps.

A record is a small JSON file, replaced as a whole. It is written before the thing is there (without a lifeline), when its first
process exists but has done nothing yet (not complete), and when it stands. A creator that dies leaves one of these, and the next
one goes on. No fsync: after a crash of the host all processes are gone anyway, and an unreadable record counts as half-made.
"""

from __future__ import annotations

import json
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from tidepool.infrastructures.local.kernel.lifeline import Lifeline
from tidepool.infrastructures.local.kernel.private import write_private

#: A table is written in microseconds; one whose writer was killed half-way stays as it is.
_READINGS, _PAUSE_S = 50, 0.001


@dataclass(frozen=True, slots=True)
class Record:
    """``spec`` is the public part of what was asked for: no secret is in it. One that says nothing stands for none."""

    spec: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""
    lifeline: Lifeline | None = None
    complete: bool = False
    #: Of a machine: the switch that its cable goes to.
    switch: Lifeline | None = None
    #: Of a machine: the boot_fingerprint that its last boot began with; ``spec`` may have moved on since.
    booted: str = ""
    #: Of a machine: its id, given when its disk is made. Empty in records of releases that gave none.
    machine_id: str = ""

    def __bool__(self) -> bool:
        return bool(self.fingerprint)

    @property
    def running(self) -> Lifeline | None:
        return self.lifeline if self.lifeline is not None and self.lifeline.is_alive() else None

    @property
    def standing(self) -> Lifeline | None:
        """The same of one that was made to its end."""
        return self.running if self.complete else None

    def save(self, path: Path) -> None:
        told = {
            "spec": self.spec,
            "fingerprint": self.fingerprint,
            "lifeline": _to_json(self.lifeline),
            "complete": self.complete,
            "switch": _to_json(self.switch),
            "booted": self.booted,
            "id": self.machine_id,
        }
        write_private(path, json.dumps(told))


def load(path: Path) -> Record:
    """The record in a file; an empty one where there is none, or one that cannot be understood."""
    try:
        told = json.loads(path.read_text("utf-8"))
        return Record(
            spec=dict(told["spec"]),
            fingerprint=str(told["fingerprint"]),
            lifeline=_lifeline(told["lifeline"]),
            complete=bool(told["complete"]),
            switch=_lifeline(told["switch"]),
            booted=str(told["booted"]),
            machine_id=str(told.get("id", "")),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return Record()  # or cut short by a crash of the host, or a full disk


def _to_json(lifeline: Lifeline | None) -> list[int | str] | None:
    return None if lifeline is None else [lifeline.pid, lifeline.start_ticks, lifeline.boot_id]


def _lifeline(told: Any) -> Lifeline | None:
    return None if told is None else Lifeline(int(told[0]), int(told[1]), str(told[2]))


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
    """The services in their order; None where the table is not there yet, or nobody finished it."""
    for _ in range(_READINGS):
        try:
            states = parse_services(table.read_text("utf-8"))
        except FileNotFoundError:
            return None
        if states is not None:
            return states
        time.sleep(_PAUSE_S)
    return None


def parse_services(text: str) -> tuple[ServiceState, ...] | None:
    """The services that a table tells of; None where it was read while it was written.

    Its first process holds it by a descriptor alone and writes it in place, with a CRC-32 of its lines at the end.
    """
    *lines, last = text.splitlines(keepends=True) or [""]
    # A first process of before wrote no checksum.
    if last not in (f"end\t{zlib.crc32(''.join(lines).encode())}\n", "end\n"):
        return None
    return tuple(_service_state(line.removesuffix("\n")) for line in lines)


def _service_state(line: str) -> ServiceState:
    name, state, pid, restarts, *role = line.split("\t")  # a first process of before wrote no role
    assert state in get_args(State), f"init has a state {state!r} that is not known here"
    return ServiceState(name, cast("State", state), int(pid), int(restarts), *role)
