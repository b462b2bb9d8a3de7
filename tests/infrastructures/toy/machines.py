"""The files of the toy's machines: they are made, listed, checked and deleted."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Transient
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.infrastructures.finding import Finding


def folder_of(spec: ClusterSpec) -> Path:
    """Return the folder that the options name.

    Raises:
        SpecError: they name none.
    """
    place = spec.site_options("toy")
    if set(place.options) != {"folder"}:
        raise SpecError((Mistake(place.path, None, "write one key, `folder`: where the machines are"),))
    return Path(place.options["folder"])


@dataclass(frozen=True, slots=True)
class ToyMachines:
    """`tidepool.infrastructures.Infrastructure`: a file ``<stack>.<node>.json`` for each machine."""

    folder: Path

    @classmethod
    def of(cls, spec: ClusterSpec, _stack: str, _data: Path) -> Infrastructure:
        return cls(folder_of(spec))

    def make(self, key: MachineKey, address: str) -> Machine:
        """Make a machine run; for a node that has one, that one."""
        file = self._file(key)
        there = json.loads(file.read_text()) if file.exists() else {"number": uuid.uuid4().hex}
        try:
            file.write_text(json.dumps({**there, "address": address, "state": "running"}))
        except FileNotFoundError as error:
            raise InsufficientCapacity(f"{key}: no room, for there is no folder {self.folder}") from error
        return self._machine(file)

    def stop(self, key: MachineKey) -> None:
        file = self._file(key)
        file.write_text(json.dumps({**json.loads(file.read_text()), "state": "stopped"}))

    def read(self, key: MachineKey) -> Machine | None:
        return next((found for found in self.list(key.stack) if key.matches(found.key)), None)

    def list(self, stack: str) -> tuple[Machine, ...]:
        machines: list[Machine] = []
        for file in sorted(self.folder.glob(f"{stack}.*.json")):
            with suppress(FileNotFoundError):  # deleted meanwhile
                machines.append(self._machine(file))
        return tuple(machines)

    def delete(self, key: MachineKey) -> None:
        if self.read(key) is not None:
            self._file(key).unlink(missing_ok=True)

    def _file(self, key: MachineKey) -> Path:
        return self.folder / f"{key.stack}.{key.node}.json"

    def _machine(self, file: Path) -> Machine:
        stack, node, _ = file.name.split(".")
        it = json.loads(file.read_text())
        return Machine(MachineKey(stack, node, it["number"]), IPv4Address(it["address"]), it["state"])


def failure_kind(text: str) -> type[InfrastructureError]:
    """Return the kind of a failure that was told in these words."""
    return InsufficientCapacity if "no room" in text else Transient


def checks_of(spec: ClusterSpec, _stack: str, _data: Path) -> Iterator[Finding]:
    """Find out whether the folder is there."""
    folder = folder_of(spec)
    if folder.is_dir():
        yield Finding("the toy", "well", f"{folder} is there")
    else:
        yield Finding("the toy", "lacks", f"there is no folder {folder}", f"mkdir {folder}")
