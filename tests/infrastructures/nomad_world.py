"""Hosts that run Nomad as a world of the contract, over a fake of its API: made as the provider makes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.infrastructures.nomad.fake import FakeHost, FakeNomad, hosts, served
from tests.infrastructures.nomad.specs import desired
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.nomad.api import Api
from tidepool.infrastructures.nomad.assignment import take
from tidepool.infrastructures.nomad.jobs import META, fleet_id, munge_id
from tidepool.infrastructures.nomad.machines import NomadMachines, to_machine
from tidepool.infrastructures.nomad.options import SiteOptions
from tidepool.simulation.machines import MachineRequest


@dataclass(frozen=True, slots=True)
class Made(NomadMachines):
    """Machines of the fleet `cpu`, on hosts of the rack `r1`."""

    def create(self, request: MachineRequest) -> Machine:
        return to_machine(take(self.api, desired(request.key, str(request.address))))


@dataclass
class NomadWorld:
    """`tests.infrastructures.conftest.World`."""

    nomad: FakeNomad
    infrastructure: Made
    stack: str = "one"

    def stop(self, key: MachineKey) -> None:
        """An administrator takes its host out of service."""
        self._host(key).eligibility = "ineligible"

    def vanish(self, key: MachineKey) -> None:
        """Somebody takes its metadata from its host."""
        self.nomad.tell(self._host(key).name, **dict.fromkeys(META))

    def leave(self, count: int) -> None:
        """So many more hosts to be had; the others are of another rack."""
        free = [host.name for host in self.nomad.hosts.values() if "tidepool_stack" not in host.told]
        for name in free[count:]:
            self.nomad.tell(name, rack="r9")

    def _host(self, key: MachineKey) -> FakeHost:
        return next(host for host in self.nomad.hosts.values() if host.meta.get("tidepool_node") == key.node)


@contextmanager
def nomad_world(count: int = 3) -> Iterator[NomadWorld]:
    """With so many hosts, and the jobs of one fleet."""
    nomad = FakeNomad(*hosts(count))
    for job in (munge_id("one", "cpu"), fleet_id("one", "cpu")):
        nomad.jobs[job] = {"tidepool_stack": "one", "tidepool_fleet": "cpu"}
    with served(nomad) as address:
        place = SiteOptions(address=address, interface="eth0", hosts={}, volumes={"home": "/home"})
        machines = Made(Api(address, answer_s=5), place, stop_s=60, sleep=lambda _: None)
        yield NomadWorld(nomad, machines)
