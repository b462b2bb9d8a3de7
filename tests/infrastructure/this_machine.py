"""This machine as an infrastructure of the contract: `tidepool.local`, through what is needed for it and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address
from pathlib import Path

from tidepool import local
from tidepool.cluster import addresses
from tidepool.infrastructure import (
    Machine,
    MachineKey,
    MachineRequest,
    Permanent,
    Transient,
)

_KEY = "/etc/tidepool/machine"


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """Machines over the root ``image``, which needs the host's /usr; each has its key in a file on its disk."""

    data: Path
    image: Path

    def create(self, request: MachineRequest) -> Machine:
        there = self._key(request.key.stack, request.key.node)
        if there not in (None, request.key):
            raise Permanent(f"{request.key} cannot be made: {there} is there; delete it first")
        spec = local.MachineSpec(
            stack=request.key.stack,
            name=request.key.node,
            network="net",
            address=str(request.address),
            mac=addresses.mac(request.address),
            image=str(self.image),
            cpus=request.cpus,
            memory_mib=request.memory_mib,
            files=(local.File(_KEY, json.dumps(asdict(request.key))),),
            mounts=(local.Mount("/usr", "/usr"),),
        )
        with _kinds():
            return _told(local.create_machine(self.data, spec), request.key)

    def read(self, key: MachineKey) -> Machine | None:
        with _kinds():
            found = local.read_machine(self.data, key.stack, key.node)
        return _told(found, key) if found and self._key(key.stack, key.node) == key else None

    def list(self, stack: str) -> tuple[Machine, ...]:
        with _kinds():
            found = local.list_machines(self.data, stack)
        told = (_told(each, self._key(stack, each.name) or MachineKey(stack, each.name, 0)) for each in found)
        return tuple(sorted(told, key=lambda machine: machine.key))

    def delete(self, key: MachineKey) -> None:
        if self._key(key.stack, key.node) in (None, key):
            with _kinds():
                local.delete_machine(self.data, key.stack, key.node)

    def _key(self, stack: str, node: str) -> MachineKey | None:
        disk = self.data / stack / "machines" / node / "upper"
        try:
            return MachineKey(**json.loads((disk / _KEY.lstrip("/")).read_text()))
        except FileNotFoundError:
            return None


def _told(machine: local.Machine, key: MachineKey) -> Machine:
    machine_id = f"{key.stack}/{key.node}/{key.generation}"
    runs = machine.state not in ("dead", "half-made")
    return Machine(machine_id, key, IPv4Address(machine.address), "running" if runs else "stopped")


@contextmanager
def _kinds() -> Iterator[None]:
    """The kinds of failures that the contract knows."""
    try:
        yield
    except (local.TimedOut, local.BootFailed) as error:
        raise Transient(str(error)) from error
    except local.LocalError as error:
        raise Permanent(str(error)) from error
