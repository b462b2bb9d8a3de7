"""The pools of a stack as its outputs tell of them, and the journal of their conversions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.stack import Stack
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.roles import Role

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
        """By node name its pool, in the order of the slots."""
        return {slot.node_name: pool for pool in self.pools.values() for slot in pool.slots()}

    def role(self, node: str) -> Role:
        """The role that the graph has for a machine."""
        return "kubernetes" if any(node in serving for serving in self.serving.values()) else "slurm"

    def count(self, pool: str, role: Role) -> int:
        """Count the machines of a pool that have a role."""
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
    return stack.context.open_conversions(conversions_file(stack))


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
    """The API server's view: why it could not be asked (empty: it could), rights that are missing, its nodes."""

    failure: str = ""
    missing: tuple[Right, ...] = ()
    nodes: tuple[KubernetesNode, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolObservations:
    """Both sides as they see the machines, and the pods there are."""

    slurm: SlurmObservation
    kubernetes: KubernetesObservation
    pods: tuple[Pod, ...] = ()
