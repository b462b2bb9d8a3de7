"""Daemons that are real processes, in front of a cluster that another process keeps: they may be killed anywhere."""

from __future__ import annotations

import copyreg
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from ipaddress import IPv4Address
from multiprocessing.managers import BaseManager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.simulation.infrastructure import FakeInfrastructure
from tests.simulation.slurm import FakeSlurm
from tidepool.clients.slurm import JobRequest, Slots
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet, fold
from tidepool.cluster.spec_reading import read_spec
from tidepool.infrastructures import Machine, MachineKey
from tidepool.scaling.cluster_state import Recorded
from tidepool.scaling.daemon.loop import Loop
from tidepool.scaling.daemon.operations import Dependencies
from tidepool.scaling.daemon.wake import Wake
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.remember import remember
from tidepool.scaling.journal import open_journal
from tidepool.scaling.observe.observe import Observer
from tidepool.scaling.ports import Failure, Occupied, StackOutputs, UpOutcome
from tidepool.simulation.machines import MachineRequest

SPEC: Final = read_spec(
    {
        "name": "dev",
        "network": "10.95.0.0/16",
        "fleets": [
            {
                "name": "cpu",
                "subnet": "10.95.1.0/24",
                "max_nodes": 4,
                "shape": {"cpus": 2, "memory": "64MiB"},
                "idle_timeout_s": 0,
            }
        ],
        "partitions": [{"name": "main", "default": True}],
    }
)
_UP_S: Final = 0.05


def _frozen(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


# What Slurm counts is frozen, and goes from one process to another as what it is made of.
copyreg.pickle(MappingProxyType, lambda mapping: (_frozen, (dict(mapping),)))

#: Quick to start: all that is imported is there already.
CONTEXT: Final = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])


class Cluster:
    """Slurm, machines and the stack, which live on whatever becomes of daemons. Calls come from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._slurm = FakeSlurm(
            run_time_s=lambda request: float(request.script.rpartition("sleep ")[2]), partitions=("main",)
        )
        slots = SPEC.fleets[0].slots()
        names, addresses = fold(s.node_name for s in slots), ",".join(str(s.address) for s in slots)
        self._slurm.create_slots(Slots(names, addresses=addresses, cpus=2, memory_mib=64, features=("cpu",)))
        self._machines = FakeInfrastructure()
        self._recorded: dict[str, Recorded] = {}
        self._fleets: dict[str, HostSet] = {}
        self._version = 0
        self._busy = threading.Lock()
        self._submitted: list[int] = []
        self._said: list[tuple[str, str]] = []

    def slurm(self, name: str, *arguments: Any) -> Any:
        """A call of its client."""
        with self._lock:
            return getattr(self._slurm, name)(*arguments)

    def submit(self, seconds: float) -> int:
        """A job that has a node to itself."""
        with self._lock:
            request = JobRequest(f"#!/bin/sh\nsleep {seconds}", exclusive=True)
            self._submitted.append(self._slurm.submit(request).job_id)
            return self._submitted[-1]

    def left(self) -> list[str]:
        """What is there of nodes, and why the cluster is not at rest."""
        with self._lock:
            there = [f"{node.name} in Slurm" for node in self._slurm.nodes() if not node.state.is_slot]
            there += [f"machine {each.key.node}" for each in self._machines.list("dev")]
            there += [f"{name} recorded" for name in self._recorded]
            return there + [f"{fleet} has {hosts}" for fleet, hosts in self._fleets.items() if hosts]

    def jobs(self) -> list[tuple[str, int]]:
        """The state of each, and how often it began anew."""
        with self._lock:
            jobs = [job for job_id in self._submitted for job in self._slurm.job(job_id)]
            return [(str(job.state), job.restarts) for job in jobs]

    def say(self, holder: str, name: str) -> None:
        """A daemon tells what it does."""
        with self._lock:
            self._said.append((holder, name))

    def said(self) -> list[tuple[str, str]]:
        """All that daemons told."""
        with self._lock:
            return list(self._said)

    # The stack

    def read(self) -> StackOutputs:
        """What it says."""
        with self._lock:
            return StackOutputs(str(self._version), SPEC, {}, dict(self._fleets), dict(self._recorded))

    def is_busy(self) -> bool:
        """Whether an `up` is under way."""
        return self._busy.locked()

    def up(self, desired: Mapping[str, HostSet], nodes: Collection[str]) -> UpOutcome | None:
        """An `up`, which goes on when who asked for it is killed; None where another is under way."""
        if not self._busy.acquire(blocking=False):
            return None
        try:
            time.sleep(_UP_S)
            with self._lock:
                return self._up(desired, nodes)
        finally:
            self._busy.release()

    def _up(self, desired: Mapping[str, HostSet], nodes: Collection[str]) -> UpOutcome:
        made, removed, failed = set(), set(), {}
        for name in sorted(nodes):
            key = MachineKey("dev", name)
            if name in desired["cpu"]:
                if name in self._recorded and not self._slurm.nodes(name)[0].state.is_slot:
                    continue  # an `up` changes nothing of what is as it is recorded
                self._machines.create(MachineRequest(key, IPv4Address("10.95.1.1"), 2, 64, "image", "boot"))
                self._slurm.boot(name)
                self._recorded[name] = Recorded(machine=True, membership=True)
                made.add(name)
                continue
            (node,) = self._slurm.nodes(name)
            if node.cpus_alloc:
                failed[name] = Failure("transient", "it has jobs")
                continue
            if not node.state.is_slot:
                self._slurm.to_future(name)
            self._machines.delete(key)
            self._recorded.pop(name, None)
            removed.add(name)
        self._fleets = dict(desired)
        self._version += 1
        return UpOutcome(frozenset(made), frozenset(removed), failed, _UP_S)

    # The infrastructure

    def machines(self) -> tuple[Machine, ...]:
        """Those that are there."""
        with self._lock:
            return self._machines.list("dev")

    def delete(self, key: MachineKey) -> None:
        """Take one away."""
        with self._lock:
            self._machines.delete(key)


class Keeper(BaseManager):
    """The process that keeps the cluster."""


Keeper.register("cluster", Cluster)


class _Slurm:
    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self._cluster.slurm(name, *arguments)

    def close(self) -> None:
        return


class _Stack:
    def __init__(self, cluster: Any) -> None:
        self.read, self.is_busy = cluster.read, cluster.is_busy
        self._cluster = cluster

    def up(
        self,
        desired: Mapping[str, HostSet],
        nodes: Collection[str],
        *,
        locations: Mapping[str, str] = FrozenDict(),
        refresh: Collection[str] = (),
        suspended: Mapping[str, HostSet] = FrozenDict(),
    ) -> UpOutcome:
        outcome: UpOutcome | None = self._cluster.up(desired, frozenset({*nodes, *refresh}))
        if outcome is None:
            raise Occupied("an operation is under way")
        return outcome

    def convert(
        self, kubernetes: Mapping[str, HostSet], nodes: Collection[str], *, refresh: Collection[str] = ()
    ) -> UpOutcome:
        raise NotImplementedError

    def preview(
        self,
        desired: Mapping[str, HostSet],
        nodes: Collection[str],
        *,
        locations: Mapping[str, str] = FrozenDict(),
        suspended: Mapping[str, HostSet] = FrozenDict(),
    ) -> str:
        return ""


class _Machines:
    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def list(self, stack: str) -> tuple[Machine, ...]:
        found: tuple[Machine, ...] = self._cluster.machines()
        return found

    def read(self, key: MachineKey) -> Machine | None:
        return next((each for each in self.list(key.stack) if each.key == key), None)

    def delete(self, key: MachineKey) -> None:
        self._cluster.delete(key)

    def create(self, request: MachineRequest) -> Machine:
        raise NotImplementedError


def run_daemon(cluster: Any, folder: Path, holder: str, lease_s: float, dies_at: tuple[str, int]) -> None:
    """A daemon's process. It kills itself when something happens for the so-manieth time: (``up-begins``, 2)."""
    name_of_death, times = dies_at
    happened = 0
    wake = Wake()

    def say(name: str, **_: Any) -> None:
        nonlocal happened
        cluster.say(holder, name)
        happened += name == name_of_death
        if times and happened == times:
            os.kill(os.getpid(), signal.SIGKILL)

    stack, machines = _Stack(cluster), _Machines(cluster)
    dependencies = Dependencies(
        holder=holder,
        journal=open_journal(folder, {}, stack="dev", power_safe=False),
        observer=Observer("dev", stack, machines, lambda _: _Slurm(cluster)),
        stack=stack,
        machines=machines,
        decide=decide,
        remember=remember,
        beside=ThreadPoolExecutor(1),
        now=lambda: datetime.now(UTC),
        monotonic_s=lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
        say=say,
        wake=wake.set,
        lease_s=lease_s,
    )
    loop = Loop(dependencies)
    while True:
        wake.clear()
        wake.wait(min(loop.turn().again_in_s, 0.1))
