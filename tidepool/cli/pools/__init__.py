"""Converged pools on the command line: as the stack's outputs tell of them, and as Slurm, Kubernetes and the journal see them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidepool.cli.context import Connection
from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.stack import Stack
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.roles import ROLES, Role
from tidepool.conversion.record import Conversion

if TYPE_CHECKING:
    from tidepool.clients.kubernetes.objects import Node as KubernetesNode
    from tidepool.clients.kubernetes.objects import Pod, Right
    from tidepool.clients.slurm import Job, Node
    from tidepool.conversion.journal import Journal


#: In the stack's folder.
CONVERSIONS_FILE: Final = "conversions.db"


@dataclass(frozen=True, slots=True)
class Pools:
    """The pools of a stack's outputs: each by its name, and the machines that serve Kubernetes."""

    stack: str
    pools: Mapping[str, ConvergedPool] = field(default_factory=dict)
    serving: Mapping[str, HostSet] = field(default_factory=dict)
    #: The way to the Kubernetes that they serve: ``stack`` and ``access`` (`tidepool.infrastructures.kubernetes_access`); None where there is none.
    kubernetes: Mapping[str, Any] | None = None

    @property
    def machines(self) -> dict[str, ConvergedPool]:
        """Pools by the names of their nodes, in the order of the slots."""
        return {slot.node_name: pool for pool in self.pools.values() for slot in pool.slots()}

    def role(self, node: str) -> Role:
        """The role that the graph has for a machine."""
        return "kubernetes" if any(node in serving for serving in self.serving.values()) else "slurm"

    def count(self, pool: str, role: Role) -> int:
        names = [name for name, its in self.machines.items() if its.name == pool]
        return sum(self.role(name) == role for name in names)


def pools_of(stack: str, outputs: Mapping[str, Any]) -> Pools:
    """The pools that a stack's ``outputs`` tell of.

    Raises:
        SpecError: the spec among them cannot be read by this release.
    """
    told = outputs.get("pools") or {}
    if not told:
        return Pools(stack)
    # Late: the models take most of the time that a look at a cluster without pools needs.
    from tidepool.cluster.spec_reading import read_spec

    spec = read_spec(outputs["spec"])
    return Pools(
        stack,
        {pool.name: pool for pool in spec.pools if pool.name in told},
        {name: HostSet(roles.get("kubernetes") or "") for name, roles in told.items()},
        {"stack": stack, **outputs["kubernetes"]} if outputs.get("kubernetes") else None,
    )


def require_pools(stack: Stack, outputs: Mapping[str, Any] | None) -> Pools:
    """The same, where there must be one.

    Raises:
        Failure: the cluster is not up, or it has no pool.
    """
    from tidepool.cli.cluster import not_up

    if not outputs:
        raise not_up(stack.name)
    found = pools_of(stack.name, outputs)
    if not found.pools:
        raise Failure(
            f"the cluster of stack {stack.name} has no pool",
            remedy="write one under `pools` of its spec (docs/cluster-spec.md), then `tidepool up`",
            code=NOT_THERE,
        )
    return found


def conversions_file(stack: Stack) -> Path:
    """Return the path of the journal of conversions."""
    return stack.data / stack.name / CONVERSIONS_FILE


def open_conversions(stack: Stack) -> Journal:
    """The journal; it is made where there is none.

    Raises:
        ConversionError: it cannot be opened.
    """
    from tidepool.conversion.journal import Journal

    return Journal(conversions_file(stack))


def read_conversions(stack: Stack) -> Journal | None:
    """The journal, to read it; None where nothing was ever converted. Reading makes none.

    Raises:
        ConversionError: it cannot be opened.
    """
    return open_conversions(stack) if conversions_file(stack).exists() else None


@dataclass(frozen=True, slots=True)
class SlurmObservation:
    """Slurm's view of the machines of pools; ``failure`` says why it could not be asked (empty: it could)."""

    failure: str = ""
    nodes: Mapping[str, Node] | None = None
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class KubernetesObservation:
    """The API server's view: why it could not be asked (empty: it could), rights that are missing, its nodes and pods."""

    failure: str = ""
    missing: tuple[Right, ...] = ()
    nodes: tuple[KubernetesNode, ...] = ()
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolObservations:
    """Machines as Slurm and Kubernetes see them."""

    slurm: SlurmObservation
    kubernetes: KubernetesObservation


def observe_both(stack: Stack, controller: Connection, pools: Pools) -> PoolObservations:
    """Ask Slurm and Kubernetes side by side."""
    with ThreadPoolExecutor(2) as beside:
        slurm = beside.submit(_slurm, stack, controller)
        kubernetes = observe_kubernetes(stack, pools.kubernetes, with_pods=True)
        return PoolObservations(slurm.result(), kubernetes)


def busy(stack: Stack, controller: Connection, pools: Pools, leaves: Role) -> frozenset[str]:
    """The machines of pools that have jobs, or pods, whichever it is; none where that cannot be asked."""
    from tidepool.cli.jobs import jobs_by_node

    if leaves == "slurm":
        return frozenset(jobs_by_node(_slurm(stack, controller).jobs))
    seen = observe_kubernetes(stack, pools.kubernetes, with_pods=True)
    return frozenset(
        pod.node for pod in seen.pods if not pod.has_ended and not pod.is_static and not pod.is_daemon
    )


def observe_kubernetes(
    stack: Stack, connection: Connection | None, *, with_pods: bool = False, with_rights: bool = False
) -> KubernetesObservation:
    """Ask the API server; say why it cannot be asked, where it cannot."""
    # Late: it is not needed where no pool is.
    from tidepool.clients.kubernetes.contract import KubernetesError

    if connection is None:
        return KubernetesObservation("the stack's outputs tell of no Kubernetes; `tidepool up` makes it")
    try:
        with closing(stack.open_kubernetes(connection)) as client:
            missing = tuple(client.missing_rights()) if with_rights else ()
            if missing:
                return KubernetesObservation(missing=missing)  # what it may not see is not known
            return KubernetesObservation(nodes=client.nodes(), pods=tuple(client.pods()) if with_pods else ())
    except KubernetesError as error:
        return KubernetesObservation(str(error))


def under_way(conversions: Iterable[Conversion]) -> dict[str, Conversion]:
    """Return by node the conversion that has not ended."""
    return {each.order.node: each for each in conversions if each.is_under_way}


def image_roles(stack: Stack, pools: Iterable[ConvergedPool]) -> dict[str, Collection[Role]]:
    """Return by image the roles that its newest build holds, by the manifest; an image that is not built is left out."""
    from tidepool.images.store import ImageStore

    wanted = {pool.image_of(role) for pool in pools for role in ROLES}
    built = ImageStore(stack.context.images).newest()
    return {name: image.holds for name, image in built.items() if name in wanted}


def _slurm(stack: Stack, controller: Connection) -> SlurmObservation:
    from tidepool.clients.slurm import SlurmError

    try:
        with closing(stack.open_slurm(controller)) as slurm:
            return SlurmObservation("", {node.name: node for node in slurm.nodes()}, tuple(slurm.jobs()))
    except SlurmError as error:
        return SlurmObservation(f"{error.what} ({error.where})")
