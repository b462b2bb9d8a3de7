"""A cluster with a converged pool: `Cluster`, with what both sides and the machines themselves say of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from demo.pods import ADMIN, Pods, manifest
from tests.clients.kubernetes.applying import Applying
from tests.processes import children
from tests.whole.cluster import Cluster, until
from tidepool.clients.kubernetes.client import KubernetesApi
from tidepool.clients.kubernetes.exchange import Exchange
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.clients.kubernetes.objects import Pod, Right
from tidepool.conversion.journal import Journal
from tidepool.conversion.record import Conversion, Phase
from tidepool.infrastructures.kubernetes_access import dialer, load_access

POOL = "shared"
ANY = Right("*", "*")
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"


def spec(
    machines: int,
    controller: Mapping[str, Any] | None = None,
    fleets: Sequence[Mapping[str, Any]] = (),
    **pool: Any,
) -> dict[str, Any]:
    """Of a cluster with a pool, whose machines serve Slurm at first, and no other nodes unless ``fleets`` are given."""
    return {
        **({"controller": controller} if controller is not None else {}),
        "fleets": list(fleets),
        "pools": [
            {
                "name": POOL,
                "subnet": "10.78.2.0/24",
                "machines": machines,
                "shape": {"cpus": 2, "memory": "512MiB"},
                "deadline_s": 60,
                **pool,
            }
        ],
        "kubernetes": {},
        # What became of a job is asked at the end: Slurm forgets one that has ended after five minutes.
        "slurm_conf": {"MinJobAge": 86_400},
    }


@dataclass
class PoolCluster(Cluster):
    """One stack with the pool `shared`."""

    @property
    def environment(self) -> dict[str, str]:
        more = (
            {"TIDEPOOL_TOOLCHAIN": os.environ["TIDEPOOL_TOOLCHAIN"]}
            if "TIDEPOOL_TOOLCHAIN" in os.environ
            else {}
        )
        return {**super().environment, **more}

    @property
    def names(self) -> list[str]:
        """The machines of the pool, and after them those of others."""
        pools = self.spec["pools"]
        return [f"{pool['name']}-{n}" for pool in pools for n in range(1, pool["machines"] + 1)]

    # Conversions

    def convert(self, *words: str, code: int = 0) -> list[Mapping[str, Any]]:
        """`tidepool convert`, which ends with ``code``; the conversions that it tells of."""
        done = self.run("convert", *words, "--json")
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        told: list[Mapping[str, Any]] = json.loads(done.stdout or "[]")
        return told

    def to(self, role: str, *nodes: str) -> None:
        """Have these serve ``role``, if need be by force."""
        self.convert(*nodes, "--to", role, "--force")

    @contextmanager
    def converting(self, *words: str, timeout_s: float = 120) -> Iterator[subprocess.Popen[str]]:
        """`tidepool convert` that goes on meanwhile; it has ended afterwards, and `converting_said` what it did."""
        with (
            self._said.open("w") as said,
            subprocess.Popen(
                [*self.command, "convert", *words],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                text=True,
            ) as child,
        ):
            try:
                yield child
            finally:
                child.wait(timeout=timeout_s)

    def converting_said(self) -> str:
        """All that the last of these wrote."""
        return self._said.read_text()

    @property
    def _said(self) -> Path:
        return self.folder / "converting.log"

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        with closing(Journal(self.data / self.stack / "conversions.db")) as journal:
            yield journal

    def last(self, node: str) -> Conversion:
        """The newest conversion of a machine."""
        with self.journal() as journal:
            return journal.conversions(node=node, limit=1)[0]

    def until_phase(self, node: str, *phases: Phase, timeout_s: float = 60) -> Conversion:
        """The newest conversion of ``node`` once it is in one of the phases."""
        return until(
            lambda: last if (last := self.last(node)).phase in phases else None,
            f"{node} is {' or '.join(phases)}",
            timeout_s,
            0.02,
        )

    # Both sides

    def kubernetes(self) -> KubernetesApi:
        """A client of an administrator."""
        return load_access(self.data, self.stack, ADMIN).client(self.data)

    @contextmanager
    def applying(self) -> Iterator[Applying]:
        """What applies objects, as an administrator."""
        way = load_access(self.data, self.stack, ADMIN)
        with self.pods() as pods:
            exchange = Exchange(read_kubeconfig(way.kubeconfig), dialer(way.machine, self.data))
            with closing(Applying(exchange, pods.requests)) as applying:
                yield applying

    def pods(self) -> Pods:
        """What makes pods and looks at them."""
        return Pods(self.data, self.stack)

    def roles(self) -> dict[str, frozenset[str]]:
        """By machine the roles that it has, as both sides see it: Slurm first, then Kubernetes, then Slurm again.

        A machine counts as Slurm's where it is so before and after Kubernetes was asked.
        """
        before = set(self.nodes())
        with closing(self.kubernetes()) as kubernetes:
            there = {node.name for node in kubernetes.nodes()}
        slurm = before & set(self.nodes())
        sides = {"slurm": slurm, "kubernetes": there}
        return {
            name: frozenset(role for role, nodes in sides.items() if name in nodes) for name in self.names
        }

    def role_of(self, node: str) -> str:
        """The one role that a machine has, by both sides; empty where it has none."""
        (role,) = self.roles()[node] or {""}
        return role

    def pod(self, name: str, script: str = "sleep 1000", **more: Any) -> None:
        """Make one for the machines of the pool."""
        with self.pods() as pods:
            pods.make(name, script, **{"pool": POOL, **more})

    def until_pod(self, name: str, *phases: str, timeout_s: float = 30) -> Pod:
        """The pod once it is in one of the phases."""
        return self._pod_once(name, lambda pod: pod.phase in phases, str(phases), timeout_s)

    def until_unschedulable(self, name: str) -> Pod:
        """The pod once the scheduler of Kubernetes said that no node has room for it."""
        return self._pod_once(name, lambda pod: bool(pod.unschedulable), "unschedulable", 30)

    def _pod_once(self, name: str, is_so: Callable[[Pod], bool], what: str, timeout_s: float) -> Pod:
        with closing(self.kubernetes()) as kubernetes:

            def seen() -> Pod | None:
                return next((pod for pod in kubernetes.pods() if pod.name == name and is_so(pod)), None)

            return until(seen, f"pod {name} is {what}", timeout_s, 0.1)

    def budget(self, name: str, labels: Mapping[str, str], min_available: int = 1) -> None:
        """A pod disruption budget; with as many pods as it wants it allows nothing."""
        thing = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"minAvailable": min_available, "selector": {"matchLabels": dict(labels)}},
        }
        with self.pods() as pods:
            pods.requests.post(BUDGETS, thing, ANY)

    def clear(self) -> None:
        """No deployments, no pods, no budgets, no jobs."""
        with self.pods() as pods:
            for kind, path in (("Deployment", DEPLOYMENTS), ("PodDisruptionBudget", BUDGETS), ("Pod", PODS)):
                for name in pods.requests.listed(path, ANY, kind, lambda item: str(item["metadata"]["name"])):
                    pods.requests.delete(f"{path}/{name}", ANY, grace_s=0 if kind == "Pod" else None)
        with self.slurm() as slurm:
            for job in slurm.jobs():
                slurm.cancel(job.job_id)
            until(lambda: not slurm.jobs() or None, "no job is left", 30)

    # In the machines

    def root(self, node: str) -> Path:
        """The machine's file system, as its first process sees it."""
        from tidepool.infrastructures.local.kernel import read_machine

        machine = read_machine(self.data, self.stack, node)
        assert machine is not None, node
        assert machine.pid is not None, node
        return Path(f"/proc/{machine.pid}/root")

    def processes(self, node: str) -> set[str]:
        """The names of all processes of a machine, those of its containers too."""
        return set(self.pids(node).values())

    def pids(self, node: str) -> dict[int, str]:
        """By number the names of the same."""
        from tidepool.infrastructures.local.kernel import read_machine

        machine = read_machine(self.data, self.stack, node)
        assert machine is not None, node
        assert machine.pid is not None, node
        found, new = {machine.pid}, {machine.pid}
        while new:
            new = {child for parent in new for child in children(parent)} - found
            found |= new
        return {pid: name for pid in found if (name := _name(pid))}

    def signal(self, node: str, program: str, number: int) -> list[int]:
        """Send the processes of that name in a machine a signal; gives their numbers."""
        # The kernel cuts names at 15 characters.
        found = [pid for pid, name in self.pids(node).items() if name == program[:15]]
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return found


@contextmanager
def a_pool_cluster(
    folder: Path,
    images: Path,
    machines: int,
    cluster_keys: Mapping[str, Any] = MappingProxyType({}),
    **pool: Any,
) -> Iterator[PoolCluster]:
    """One that is up, with nothing left of it afterwards; ``cluster_keys`` are more of its spec."""
    import uuid

    from tests.infrastructures.local.stacks import Stack, left_of

    wanted = {**spec(machines, **pool), **cluster_keys}
    cluster = PoolCluster.make(folder, images, f"t{uuid.uuid4().hex[:8]}", **wanted)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
    assert left_of(Stack(cluster.data, cluster.stack, images)) == []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def deployment(name: str, replicas: int, script: str = "sleep 1000") -> dict[str, Any]:
    """Pods that are made again where they were taken away."""
    labels = {"app": name}
    pod = manifest(name, script, pool=POOL, labels=labels, restart="Always")
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }
