"""Checks before a conversion changes anything; all mistakes are told at once. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidepool.cli.pools.model import KubernetesObservation, Pools
from tidepool.clients.kubernetes.objects import STACK_LABEL
from tidepool.cluster.hostlist import fold
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.roles import ROLES, Role

if TYPE_CHECKING:
    from tidepool.clients.kubernetes.objects import Node
    from tidepool.conversion.record import Conversion


@dataclass(frozen=True, slots=True)
class Known:
    """The knowledge that a conversion is checked with.

    ``under_way`` has those of all machines. ``image_roles``: by image what its manifest says; one that is not there is not
    known.
    """

    pools: Pools
    kubernetes: KubernetesObservation
    under_way: Mapping[str, Conversion] = field(default_factory=dict)
    image_roles: Mapping[str, Collection[Role]] = field(default_factory=dict)
    #: Machines that have jobs or pods.
    busy: frozenset[str] = frozenset()


def mistakes(nodes: Iterable[str], to: Role, known: Known) -> Iterator[str]:
    """Why ``nodes`` cannot have the role ``to``, a line each; none where they can."""
    wanted = list(dict.fromkeys(nodes))
    machines = known.pools.machines
    if strange := [node for node in wanted if node not in machines]:
        there = ", ".join(f"{pool.name}-[1-{pool.machines}]" for pool in known.pools.pools.values())
        yield f"{_folded(strange)} {'is' if len(strange) == 1 else 'are'} in no pool: the machines of pools are {there}"
    ours = [node for node in wanted if node in machines]
    yield from _other_ways(ours, to, known.under_way)
    for name in dict.fromkeys(machines[node].name for node in ours):
        pool = known.pools.pools[name]
        yield from _counts(pool, [node for node in ours if machines[node].name == name], to, known)
        yield from image_mistakes(pool, known.image_roles)
    yield from kubernetes_mistakes(known.kubernetes)
    if to == "kubernetes":
        yield from foreign_nodes(ours, known.pools.stack, known.kubernetes.nodes)


def kubernetes_mistakes(seen: KubernetesObservation) -> Iterator[str]:
    """Why nothing can be moved with the Kubernetes that there is."""
    if seen.failure:
        yield f"Kubernetes cannot be asked, and while it cannot, no machine moves: {seen.failure}"
    for right in seen.missing:
        yield f"the kubeconfig has not the right to {right}"


def image_mistakes(pool: ConvergedPool, image_roles: Mapping[str, Collection[Role]]) -> Iterator[str]:
    """The roles that the image of a pool does not hold, where its manifest says which it does."""
    held = image_roles.get(pool.image)
    for role in ROLES if held is not None else ():
        if role not in (held or ()):
            yield (
                f"pool {pool.name}: its image {pool.image} does not hold the role {role}, by its manifest; take one that "
                "does, such as debian-12-converged"
            )


def foreign_nodes(names: Collection[str], stack: str, nodes: Iterable[Node]) -> Iterator[str]:
    """Names of ours that are Nodes of somebody else already."""
    for node in nodes:
        if node.name in names and (owner := node.labels.get(STACK_LABEL)) != stack:
            whose = f"of the stack {owner}" if owner else "of another cluster"
            yield (
                f"Kubernetes has a Node {node.name} already, {whose}: its label {STACK_LABEL} is not {stack}; give the pool "
                "another name, or take that Node away"
            )


def _other_ways(nodes: Iterable[str], to: Role, under_way: Mapping[str, Conversion]) -> Iterator[str]:
    for node in nodes:
        other = under_way.get(node)
        # One that nobody began gives way after a while: the journal knows.
        if other is not None and other.order.to != to and (other.phase != "asked" or other.driver):
            yield (
                f"{node} is on its way to {other.order.to} ({other.phase}); `tidepool convert {node} --cancel` has it go back, "
                "as long as it can"
            )


def _counts(pool: ConvergedPool, nodes: Collection[str], to: Role, known: Known) -> Iterator[str]:
    """Check the numbers of machines by role; machines on their way count where they go."""
    will_be = {
        name: _will_be(name, known) for name, its in known.pools.machines.items() if its.name == pool.name
    }
    moving = [node for node in nodes if will_be[node] != to]
    if not moving:
        return
    other: Role = "slurm" if to == "kubernetes" else "kubernetes"
    more = list(will_be.values()).count(to) + len(moving)
    less = list(will_be.values()).count(other) - len(moving)
    if more > pool.most(to):
        yield (
            f"pool {pool.name}: {more} machines would serve {to}, and {to}_max is {pool.most(to)}; {_folded(moving)} cannot "
            "all go"
        )
    if less < pool.least(other):
        yield (
            f"pool {pool.name}: {less} machines would serve {other}, and {other}_min is {pool.least(other)}; "
            f"{_folded(moving)} cannot all go"
        )


def _will_be(node: str, known: Known) -> Role:
    """The role that a machine will have when what is under way has ended as it is meant to."""
    going = known.under_way.get(node)
    if going is None or going.cancel_by or going.phase == "restoring":
        return known.pools.role(node)
    return going.order.to


def _folded(names: Iterable[str]) -> str:
    listed = list(names)
    try:
        return fold(listed)
    except ValueError:
        return ", ".join(listed)
