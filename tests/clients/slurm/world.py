"""The two worlds that the contract is held against: one in memory, one of real processes."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from math import inf
from typing import Protocol

import pytest

from tests.clients.slurm.real import RealSlurm, eventually
from tests.simulation.slurm import FakeSlurm
from tidepool.clients.slurm import JobRequest, JobState, Node, Slots, SlurmClient
from tidepool.cluster.hostlist import expand

#: Slurm from 23.11 on takes a dynamic node to be where its slurmd calls from.
CALLS_FROM = "all nodes of one loopback call from one address"

_numbers = itertools.count(1)


class World(Protocol):
    """A cluster without nodes, and what happens to its machines and its controller."""

    @property
    def slurm(self) -> SlurmClient: ...

    @property
    def impatient(self) -> SlurmClient:
        """The same, with a short time-out."""
        ...

    def slots(
        self, count: int, *, memory_mib: int = 500, features: tuple[str, ...] = (), gres: str = ""
    ) -> str:
        """Declare ``count`` slots of two CPUs, and return their hostlist: names that no other test has."""
        ...

    def boot(self, names: str) -> None: ...

    def unplug(self, names: str) -> None: ...

    def has_begun(self, job_id: int) -> bool:
        """Whether the job's script runs on its node: of one that is only told to, Slurm says that it is running as well."""
        ...

    def controller_dies(self) -> None: ...

    def controller_returns(self) -> None: ...

    def controller_hangs(self) -> None: ...

    def controller_wakes(self) -> None: ...

    def comment(self, job_id: int) -> str:
        """What its owner was told."""
        ...

    def reserve(self, name: str, nodes: str, start: datetime | None = None) -> None:
        """Reserve nodes for an hour of maintenance, now or later."""

    def end_reservation(self, name: str) -> None: ...

    def clear(self) -> None: ...


def up(
    world: World, count: int, *, memory_mib: int = 500, features: tuple[str, ...] = (), gres: str = ""
) -> str:
    """``count`` nodes that are up and idle; their hostlist."""
    names = world.slots(count, memory_mib=memory_mib, features=features, gres=gres)
    world.boot(names)
    wait_for_nodes(world, names, lambda node: str(node.state.base) == "IDLE" and node.state.takes_jobs)
    return names


def wait_for_nodes(world: World, names: str, wanted: Callable[[Node], bool]) -> tuple[Node, ...]:
    return eventually(lambda: world.slurm.nodes(names), lambda nodes: all(map(wanted, nodes)))


def wait_for_job(world: World, job_id: int, *states: JobState) -> None:
    eventually(lambda: world.slurm.job(job_id), lambda jobs: all(job.state in states for job in jobs))


def names_for(count: int) -> tuple[str, int]:
    """Names that no other test has, and their number."""
    number = next(_numbers)
    return (f"t{number}-[1-{count}]" if count > 1 else f"t{number}-1"), number


class FakeWorld:
    """`FakeSlurm`, whose jobs run as long as their script sleeps."""

    def __init__(self) -> None:
        self.fake = FakeSlurm(
            now=lambda: datetime.now(UTC), run_time_s=_sleeps_s, partitions=("all", "hidden")
        )

    @property
    def slurm(self) -> SlurmClient:
        return self.fake

    impatient = slurm

    def slots(
        self, count: int, *, memory_mib: int = 500, features: tuple[str, ...] = (), gres: str = ""
    ) -> str:
        names, number = names_for(count)
        addresses = f"127.7.{number}.[1-{count}]"
        self.fake.create_slots(Slots(names, addresses, 2, memory_mib, features, gres))
        return names

    def boot(self, names: str) -> None:
        self.fake.boot(*expand(names))

    def unplug(self, names: str) -> None:
        self.fake.unplug(*expand(names))

    def has_begun(self, job_id: int) -> bool:
        return self.slurm.job(job_id)[0].state is JobState.RUNNING

    def controller_dies(self) -> None:
        self.fake.controller = "down"

    def controller_hangs(self) -> None:
        self.fake.controller = "hanging"

    def controller_returns(self) -> None:
        self.fake.controller = "up"

    controller_wakes = controller_returns

    def comment(self, job_id: int) -> str:
        return "; ".join(self.fake.told.get(job_id, ()))

    def reserve(self, name: str, nodes: str, start: datetime | None = None) -> None:
        self.fake.reserve(name, nodes, start=start)

    def end_reservation(self, name: str) -> None:
        self.fake.end_reservation(name)

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]


class RealWorld:
    """A real slurmctld, asked through ``slurm``."""

    def __init__(self, real: RealSlurm, slurm: SlurmClient, impatient: SlurmClient) -> None:
        self.real = real
        self._slurm = slurm
        self._impatient = impatient

    @property
    def slurm(self) -> SlurmClient:
        return self._slurm

    @property
    def impatient(self) -> SlurmClient:
        return self._impatient

    def slots(
        self, count: int, *, memory_mib: int = 500, features: tuple[str, ...] = (), gres: str = ""
    ) -> str:
        names, number = names_for(count)
        addresses = f"127.7.{number}.[1-{count}]"
        self.real.know(dict(zip(expand(names), expand(addresses), strict=True)))
        self._slurm.create_slots(Slots(names, addresses, 2, memory_mib, features, gres))
        return names

    def boot(self, names: str) -> None:
        if not self.real.nodes_keep_their_addresses:
            pytest.skip(CALLS_FROM)
        for name in expand(names):
            self.real.boot(name)

    def unplug(self, names: str) -> None:
        for name in expand(names):
            self.real.unplug(name)

    def has_begun(self, job_id: int) -> bool:
        found = subprocess.run(
            ["ps", "-C", "slurmstepd", "-o", "args="], capture_output=True, text=True, check=False
        ).stdout
        return f"slurmstepd: [{job_id}.batch]" in found.splitlines()

    def controller_dies(self) -> None:
        self.real.kill_controller()

    def controller_returns(self) -> None:
        self.real.start_controller()

    def controller_hangs(self) -> None:
        self.real.freeze_controller()

    def controller_wakes(self) -> None:
        self.real.thaw_controller()

    def comment(self, job_id: int) -> str:
        shown = self.real.command(["scontrol", "--oneliner", "show", "job", str(job_id)]).stdout
        found = re.search(r" AdminComment=(.*?) +StdErr=", shown)
        return found[1] if found else ""

    def reserve(self, name: str, nodes: str, start: datetime | None = None) -> None:
        begin = f"uts{start.timestamp():.0f}" if start else "now"
        words = [f"ReservationName={name}", f"Nodes={nodes}", f"StartTime={begin}", "Duration=60"]
        self._scontrol("create", "reservation", *words, "Users=root", "Flags=MAINT")

    def end_reservation(self, name: str) -> None:
        self._scontrol("delete", f"ReservationName={name}")

    def _scontrol(self, *words: str) -> None:
        done = self.real.command(["scontrol", *words])
        assert done.returncode == 0, done.stderr

    def clear(self) -> None:
        """As it was before the test: no jobs, no nodes, no reservations."""
        for job_id in {job.array_job_id for job in self._slurm.jobs()}:
            self._slurm.cancel(job_id)
        for reservation in self._slurm.reservations():
            self.end_reservation(reservation.name)
        self.real.unplug_all()
        nodes = [node for node in self._slurm.nodes() if not node.state.is_slot]
        if nodes:
            names = ",".join(node.name for node in nodes)
            self._slurm.down(names, "the test is over")
            eventually(self._slurm.jobs, lambda jobs: not jobs)
        if left := ",".join(node.name for node in self._slurm.nodes()):
            self._slurm.delete_nodes(left)


def _sleeps_s(request: JobRequest) -> float:
    words = request.script.split()
    return float(words[words.index("sleep") + 1]) if "sleep" in words else (0.0 if "true" in words else inf)
