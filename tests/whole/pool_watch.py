"""A pool seen from both sides and from within its machines: that none has two roles, and what a role left there."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.whole.pools import PoolCluster
from tidepool.clients.kubernetes.contract import KubernetesError
from tidepool.clients.slurm import SlurmError
from tidepool.cluster.roles import KUBELET_PKI, MUNGE_KEY, Role


@dataclass
class Watch:
    """Looks at both sides, and into each machine, during every step; what it finds is a fault."""

    pool: PoolCluster
    found: list[str] = field(default_factory=list)
    #: Of both sides; of single machines. What is down cannot be looked at: how often that was.
    looks: int = 0
    looks_inside: int = 0
    blind: int = 0
    failed: BaseException | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        stop = threading.Event()

        def look() -> None:
            try:
                while not stop.wait(0.3):
                    self.look()
            except BaseException as error:  # told by the next step
                self.failed = error
                raise

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def look(self) -> None:
        """Once."""
        try:
            both = [node for node, roles in self.pool.roles().items() if len(roles) > 1]
            self.found += [f"{node} has two roles on both sides" for node in both]
            self.looks += 1
        except (KubernetesError, SlurmError):
            self.blind += 1  # slurmctld or the API server does not answer
        for node in self.pool.names:
            try:
                inside = inside_roles(self.pool, node)
            except OSError:
                self.blind += 1  # processes of it end while they are looked at
                continue
            self.looks_inside += 1
            if len(inside) > 1:
                self.found.append(f"{node} has credentials or daemons of two roles")

    def check(self, looks: int) -> None:
        """It found nothing, in at least so many looks."""
        if self.failed is not None:
            raise AssertionError("the watch ended") from self.failed
        assert self.found == [], self.found
        assert min(self.looks, self.looks_inside) >= looks, (
            f"{self.looks}, {self.looks_inside}, blind {self.blind}"
        )


def inside_roles(pool: PoolCluster, node: str) -> set[str]:
    """The roles that a machine has by what is in it: its daemons, its credentials."""
    found, root = set(), pool.root(node)
    processes = pool.processes(node)
    if "slurmd" in processes or (root / MUNGE_KEY.lstrip("/")).exists():
        found.add("slurm")
    pki = root / KUBELET_PKI.lstrip("/")
    if "kubelet" in processes or (pki.is_dir() and any(pki.iterdir())):
        found.add("kubernetes")
    return found


#: What a role leaves in names of mounts, links, control groups and processes.
_TRACES: Final[Mapping[Role, re.Pattern[str]]] = {
    "slurm": re.compile(r"slurm|munge", re.IGNORECASE),
    "kubernetes": re.compile(r"kube|cni|veth|containerd-shim|/run/containerd", re.IGNORECASE),
}


def traces(pool: PoolCluster, node: str, role: Role) -> set[str]:
    """What is of ``role`` in a machine by what the kernel says, which is nothing that conversions themselves ask."""
    mounts = (pool.root(node).parent / "mountinfo").read_text().splitlines()
    links = pool.on(node, "ip", "-o", "link").stdout.splitlines()
    groups = [
        f"{folder}/{name}"
        for machine in Path("/sys/fs/cgroup").glob(f"*/tidepool/*-{pool.stack}/machines/{node}")
        for folder, names, _ in os.walk(machine)  # pods come and go: what has just gone is passed over
        for name in names
    ]
    assert mounts
    assert links
    assert groups
    return {each for each in (*mounts, *links, *groups, *pool.processes(node)) if _TRACES[role].search(each)}
