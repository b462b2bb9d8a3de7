"""tidepool:toy:Machine, as Tidepool's own plugin serves it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.infrastructures.toy.graph import ToyMachine, ToyMachineModel
from tests.infrastructures.toy.machines import ToyMachines
from tidepool.infrastructures import MachineKey
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.values import Inputs, Plain


class ToyMachineKind(Kind[ToyMachineModel]):
    """A machine of the toy."""

    resource = ToyMachine

    def __init__(self, home: Home) -> None:
        self._home = home

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        where = {"stack": inputs.get("stack"), "address": inputs.get("address")}
        return {"connection": {"kind": "ssh", "user": "root", **where}}

    def create(self, wanted: ToyMachineModel, task: Task) -> Made:
        made = _machines(wanted).make(_key(wanted), wanted.address)
        return Made(f"{wanted.stack}/{wanted.machine}", {"number": made.machine_id})

    def look(self, id: str, state: ToyMachineModel) -> Mapping[str, Plain] | None:
        return AS_KNOWN if _machines(state).read(_key(state)) else None

    def delete(self, id: str, state: ToyMachineModel, task: Task) -> None:
        _machines(state).delete(_key(state))


def _machines(wanted: ToyMachineModel) -> ToyMachines:
    return ToyMachines(Path(wanted.folder))


def _key(wanted: ToyMachineModel) -> MachineKey:
    return MachineKey(wanted.stack, wanted.machine)
