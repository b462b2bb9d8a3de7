"""Checks before machines of pools move or go: all mistakes are told at once, and pods that would be lost are named."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tidepool.cli import show
from tidepool.cli.errors import JOBS, NOT_THERE, USAGE, Failure
from tidepool.cli.jobs import leaving, wait_until_none
from tidepool.cli.pools import KubernetesObservation, Pools, observe_kubernetes, pools_of, read_conversions
from tidepool.cli.stack import Stack
from tidepool.clients.kubernetes.contract import KubernetesError
from tidepool.clients.kubernetes.objects import STACK_LABEL
from tidepool.cluster.hostlist import fold
from tidepool.cluster.names import CONTROL_PLANE_HOST
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.roles import ROLES, Role
from tidepool.cluster.spec import ClusterSpec
from tidepool.conversion.ports import NotOrdered
from tidepool.journals.processes import is_driven

if TYPE_CHECKING:
    from tidepool.clients.kubernetes.contract import KubernetesClient
    from tidepool.clients.kubernetes.objects import Node, Pod
    from tidepool.conversion.journal import Journal
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
    """Yield why ``nodes`` cannot have the role ``to``, a line each; nothing where they can."""
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
    """Yield why nothing can be moved with the Kubernetes that there is."""
    if seen.failure:
        yield f"Kubernetes cannot be asked, and while it cannot, no machine moves: {seen.failure}"
    for right in seen.missing:
        yield f"the kubeconfig has not the right to {right}"


def image_mistakes(pool: ConvergedPool, image_roles: Mapping[str, Collection[Role]]) -> Iterator[str]:
    """The roles that the image of a pool does not hold, where its manifest says which it does."""
    for role in ROLES:
        held = image_roles.get(image := pool.image_of(role))
        if held is not None and role not in held:
            yield (
                f"pool {pool.name}: its image {image} does not hold the role {role}, by its manifest; take one that "
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


_GONE_S: Final = 90.0
#: Longer than a machine takes to be made again what it was.
_ENDS_S: Final = 240.0
_SHOWN: Final = 20
_REASON: Final = "the cluster is taken down by `tidepool down --force`"


def end_conversions(stack: Stack, *, cancel: bool) -> None:
    """Have nobody move machines of the cluster any more, before it goes.

    Raises:
        Failure: conversions are under way, and are not to be cancelled; or they do not end.
    """
    journal = read_conversions(stack)
    if journal is None:
        return
    with closing(journal):
        if not (going := _driven(journal)):
            return
        named = ", ".join(f"{each.order.node} to {each.order.to}" for each in going)
        nodes = fold(each.order.node for each in going)
        if not cancel:
            raise Failure(
                f"conversions are under way: {named}",
                remedy=f"wait for their end, or `tidepool convert {nodes} --cancel`; `tidepool down --force` does that too",
                code=JOBS,
            )
        show.tell(f"cancelling the conversions {named}")
        for each in going:
            with suppress(NotOrdered):  # it is past that, and comes to its end
                journal.cancel(each.order.node, stack.context.who)
        if left := wait_until_none(lambda: _driven(journal), _ENDS_S):
            listed = ", ".join(f"{each.order.node} ({each.phase}: {each.text})" for each in left)
            raise Failure(f"conversions do not end: {listed}", remedy="`tidepool down --force` again")


def end_pods(stack: Stack, outputs: Mapping[str, Any], *, kill: bool) -> None:
    """Have nothing lost of what runs in the pools, before the cluster goes; or kill it, where a person wants that.

    Raises:
        Failure: pods would be lost, and are not to be killed; or Kubernetes does not say whether there are some.
    """
    pools = pools_of(stack.name, outputs)
    if not pools.pools or pools.kubernetes is None:
        return
    machines = set(pools.machines)
    try:
        with closing(stack.open_kubernetes(pools.kubernetes)) as client:
            there = on_machines(client.pods(), machines)
            lost = [pod for pod in there if _is_own(stack) or not pod.owner]
            if lost and not kill:
                raise Failure(
                    f"pods run that nobody would make again: {names(lost)}",
                    remedy="wait until they have ended, or kill them: `tidepool down --force`",
                    code=JOBS,
                )
            if there:
                _kill_all(client, machines)
    except KubernetesError as error:
        if not kill and not (_is_own(stack) and _machines(stack).get(CONTROL_PLANE_HOST) != "running"):
            raise Failure(
                f"Kubernetes cannot be asked whether pods run: {error}",
                remedy="`tidepool up` mends the cluster; `tidepool down --force` takes it down regardless",
                code=NOT_THERE,
            ) from error
        show.warn(f"Kubernetes cannot be asked whether pods run, so it is not known which are lost: {error}")


def refuse_lost_pods(stack: Stack, pools: Pools, leaving: Collection[str]) -> None:
    """Refuse an `up` in which machines of pools go that have pods.

    Raises:
        Failure: with the pods' names; or Kubernetes does not say whether there are some.
    """
    serving = {name for hosts in pools.serving.values() for name in hosts}
    if not serving & set(leaving) or pools.kubernetes is None:
        return
    try:
        with closing(stack.open_kubernetes(pools.kubernetes)) as client:
            there = on_machines(client.pods(), leaving)
    except KubernetesError as error:
        raise Failure(
            f"machines of pools would go, and Kubernetes cannot be asked which pods run there: {error}",
            remedy="`tidepool up` with the spec as it was mends the cluster; then take them out",
            code=NOT_THERE,
        ) from error
    if there:
        raise Failure(
            f"pods run on machines that would go: {names(there)}",
            remedy="`tidepool convert` the machines to slurm first, which moves the pods or waits for them",
            code=JOBS,
        )


def on_machines(pods: Iterable[Pod], machines: Collection[str]) -> list[Pod]:
    """Return the pods on ``machines`` that are neither static nor of a daemon set."""
    return [
        pod
        for pod in pods
        if pod.node in machines and not pod.has_ended and not pod.is_static and not pod.is_daemon
    ]


def names(pods: Iterable[Pod]) -> str:
    """The first of them."""
    return show.first(sorted(pod.key for pod in pods), _SHOWN)


def _kill_all(client: KubernetesClient, machines: Collection[str]) -> None:
    """Kill what runs on ``machines``, where nothing new comes, and wait for some time until it is gone.

    Raises:
        KubernetesError: it cannot be asked, or refuses.
    """
    for node in client.nodes():
        if node.name in machines:
            client.cordon(node.name, _REASON)
    there = on_machines(client.pods(), machines)
    show.tell(f"killing the pods {names(there)}")
    for pod in there:
        client.tell(pod, "TidepoolDown", _REASON)
        client.delete_pod(pod, 0)
    if left := wait_until_none(lambda: on_machines(client.pods(), machines), _GONE_S):
        show.warn(
            f"pods killed {_GONE_S:g} s ago are still there: {names(left)}; they end with their machines"
        )


def _driven(journal: Journal) -> list[Conversion]:
    """Return the conversions under way that somebody drives."""
    now = datetime.now(UTC)
    return [each for each in journal.conversions() if each.is_under_way and is_driven(each, now)]


def _is_own(stack: Stack) -> bool:
    """Return whether Kubernetes goes with the cluster, and all that it would make again."""
    return CONTROL_PLANE_HOST in _machines(stack)


def _machines(stack: Stack) -> dict[str, str]:
    from tidepool.infrastructures.local.kernel import list_machines

    return {machine.name: machine.state for machine in list_machines(stack.data, stack.name)}


def look_at_pools(stack: Stack, outputs: Mapping[str, Any], spec: ClusterSpec) -> None:
    """Look at Kubernetes where ``spec`` has pools, or the cluster has.

    One of the cluster's own is asked only about pods that would be lost: what it lacks besides, the `up` mends.

    Raises:
        Failure: pods would be lost; or the Kubernetes of a kubeconfig does not answer, does not allow what is needed, or
            has nodes of the machines' names already: all of it at once.
    """
    if outputs.get("pools"):
        from tidepool.cli.cluster import parse_outputs

        gone = [
            name for names in leaving(parse_outputs(stack.name, outputs), spec).values() for name in names
        ]
        refuse_lost_pods(stack, pools_of(stack.name, outputs), gone)
    if spec.kubernetes is None or spec.kubernetes.kubeconfig is None:
        return
    seen = observe_kubernetes(stack, {"kubeconfig": spec.kubernetes.kubeconfig}, with_rights=True)
    names = [slot.node_name for pool in spec.pools for slot in pool.slots()]
    wrong = [*kubernetes_mistakes(seen), *foreign_nodes(names, stack.name, seen.nodes)]
    if wrong:
        where = f"{stack.file}, kubernetes.kubeconfig {spec.kubernetes.kubeconfig}:"
        raise Failure(
            "\n".join([where, *(f"  {each}" for each in wrong)]),
            remedy="nothing was changed",
            code=NOT_THERE if seen.failure else USAGE,
        )
