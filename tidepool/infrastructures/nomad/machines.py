"""The machines of Nomad as the infrastructure that the scaler looks at and sweeps: hosts, by what their metadata says.

A machine that was made is not seen until its host has told the servers, some seconds later. One that Nomad does not take
new work on, or that is down, is stopped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.machines import NO_ADDRESS
from tidepool.infrastructures.nomad.api import Api, ApiLocation, Host
from tidepool.infrastructures.nomad.assignment import find, key_of, leave
from tidepool.infrastructures.nomad.jobs import ADDRESS, fleet_jobs
from tidepool.infrastructures.nomad.options import SiteOptions
from tidepool.infrastructures.nomad.reading import read_options


def machines_of(spec: ClusterSpec, _stack: str, _data: Path) -> NomadMachines:
    """The machines of that spec's place. They are told apart by their metadata, and nothing of them is here.

    Raises:
        Permanent: the token cannot be read.
    """
    place = read_options(spec).place
    return NomadMachines(api_of(place), place)


def api_of(place: SiteOptions) -> Api:
    """The API of a place, with its token."""
    return ApiLocation.of(place).open(os.environ)


@dataclass(frozen=True, slots=True)
class NomadMachines:
    """`tidepool.infrastructures.Infrastructure`. A machine is its host: its id has that of the host."""

    api: Api
    place: SiteOptions
    stop_s: float = 60.0
    sleep: Callable[[float], None] = time.sleep

    def read(self, key: MachineKey) -> Machine | None:
        found = [host for host in find(self.api, key.stack, key.node) if key.matches(_key(host))]
        return to_machine(found[0]) if found else None

    def list(self, stack: str) -> tuple[Machine, ...]:
        return tuple(sorted(map(to_machine, find(self.api, stack)), key=lambda machine: machine.key))

    def delete(self, key: MachineKey) -> None:
        ends = time.monotonic() + self.stop_s

        def wait() -> bool:
            self.sleep(0.5)
            return time.monotonic() < ends

        leave(self.api, key, partial(fleet_jobs, self.place, key.stack), self.place.namespace, wait)


def to_machine(host: Host) -> Machine:
    """A host in the words of the contract. A host is many machines in its life: its id alone is none's."""
    key = _key(host)
    address = host.meta.get(ADDRESS)
    runs = host.is_up and host.is_eligible
    return Machine(
        key,
        IPv4Address(address) if address else NO_ADDRESS,
        "running" if runs else "stopped",
    )


def _key(host: Host) -> MachineKey:
    key = key_of(host)
    assert key is not None
    return key
