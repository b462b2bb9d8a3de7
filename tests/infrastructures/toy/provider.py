"""tidepool:toy:Machine, as Tidepool's own plugin serves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.infrastructures.toy.machines import ToyMachines
from tidepool.infrastructures import MachineKey
from tidepool.resources.difference import Rules
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Reader
from tidepool.resources.values import Inputs, Plain


@dataclass(frozen=True, slots=True)
class Wanted:
    key: MachineKey
    machines: ToyMachines
    address: str


class ToyMachineKind(Kind[Wanted]):
    """A machine of the toy."""

    token = "tidepool:toy:Machine"
    keys = frozenset({"folder", "stack", "machine", "address", "boot"})
    rules = Rules(replaces=keys - {"boot"})

    def __init__(self, home: Home) -> None:
        self._home = home

    def read(self, reader: Reader) -> Wanted:
        key = MachineKey(reader.text("stack"), reader.text("machine"))
        reader.text("boot")
        return Wanted(key, ToyMachines(Path(reader.text("folder"))), reader.text("address"))

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        where = {"stack": inputs.get("stack"), "address": inputs.get("address")}
        return {"connection": {"kind": "ssh", "user": "root", **where}}

    def create(self, wanted: Wanted, task: Task) -> Made:
        made = wanted.machines.make(wanted.key, wanted.address)
        return Made(f"{wanted.key.stack}/{wanted.key.node}", {"number": made.machine_id})

    def look(self, id: str, state: Wanted) -> Mapping[str, Plain] | None:
        return AS_KNOWN if state.machines.read(state.key) else None

    def delete(self, id: str, state: Wanted, task: Task) -> None:
        state.machines.delete(state.key)
