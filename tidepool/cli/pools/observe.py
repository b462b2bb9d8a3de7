"""Looks at pools from all sides: the stack's outputs, the journal of conversions, Slurm and Kubernetes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidepool.cli.cluster import parse_outputs
from tidepool.cli.context import Connection
from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.pools.model import (
    KubernetesObservation,
    PoolObservations,
    Pools,
    SlurmObservation,
    read_conversions,
    require_pools,
)
from tidepool.cli.pools.view import PoolsView, pools_view
from tidepool.cli.stack import Stack
from tidepool.conversion.record import Conversion

if TYPE_CHECKING:
    from tidepool.clients.kubernetes.objects import Pod
    from tidepool.cluster.pool import ConvergedPool
    from tidepool.cluster.roles import Role


def observe_both(stack: Stack, controller: Connection, pools: Pools) -> PoolObservations:
    """Ask Slurm and Kubernetes side by side."""
    with ThreadPoolExecutor(2) as beside:
        slurm = beside.submit(_slurm, stack, controller)
        kubernetes, pods = observe_kubernetes(stack, pools.kubernetes, with_pods=True)
        return PoolObservations(slurm.result(), kubernetes, pods)


def busy(stack: Stack, controller: Connection, pools: Pools, leaves: Role) -> frozenset[str]:
    """The machines of pools that have jobs, or pods, whichever it is; none where that cannot be asked."""
    from tidepool.cli.jobs import jobs_by_node

    if leaves == "slurm":
        return frozenset(jobs_by_node(_slurm(stack, controller).jobs))
    _, pods = observe_kubernetes(stack, pools.kubernetes, with_pods=True)
    return frozenset(
        pod.node for pod in pods if not pod.has_ended and not pod.is_static and not pod.is_daemon
    )


def observe_kubernetes(
    stack: Stack, connection: Connection | None, *, with_pods: bool = False, with_rights: bool = False
) -> tuple[KubernetesObservation, tuple[Pod, ...]]:
    """Ask the API server; say why it cannot be asked, where it cannot."""
    # Late: it is not needed where no pool is.
    from tidepool.clients.kubernetes.errors import KubernetesError

    if connection is None:
        return KubernetesObservation("the stack's outputs tell of no Kubernetes; `tidepool up` makes it"), ()
    try:
        with closing(stack.context.open_kubernetes(connection, stack.data)) as client:
            missing = tuple(client.missing_rights()) if with_rights else ()
            if missing:
                return KubernetesObservation(
                    "", missing
                ), ()  # each is named; what it may not see is not known
            return KubernetesObservation("", (), client.nodes()), client.pods() if with_pods else ()
    except KubernetesError as error:
        return KubernetesObservation(str(error)), ()


def under_way(conversions: Iterable[Conversion]) -> dict[str, Conversion]:
    """By node the conversion that has not ended."""
    return {each.order.node: each for each in conversions if each.is_under_way}


def image_roles(stack: Stack, pools: Iterable[ConvergedPool]) -> dict[str, Collection[Role]]:
    """By image the roles that it holds, by the manifest of the newest one; an image that is not built is left out."""
    from tidepool.images.store import ImageStore

    store = ImageStore(Path(stack.context.env.get("TIDEPOOL_IMAGES") or stack.data / "images"))
    wanted = {pool.image for pool in pools}
    built = sorted(store.images(), key=lambda image: image.folder.stat().st_mtime)
    return {image.name: image.holds for image in built if image.name in wanted}


def _slurm(stack: Stack, controller: Connection) -> SlurmObservation:
    from tidepool.clients.slurm import SlurmError

    try:
        with closing(stack.context.open_slurm(controller, stack.data)) as slurm:
            return SlurmObservation("", {node.name: node for node in slurm.nodes()}, tuple(slurm.jobs()))
    except SlurmError as error:
        return SlurmObservation(f"{error.what} ({error.where})")


def observe_pools(stack: Stack, pool: str | None = None) -> PoolsView:
    """Observe all pools, or one.

    Raises:
        Failure: the cluster is not up, or has no pool of that name.
    """
    outputs = stack.outputs()
    pools = require_pools(stack, outputs)
    sides = observe_both(stack, parse_outputs(stack.name, outputs or {}).controller, pools)
    journal = read_conversions(stack)
    conversions: tuple[Conversion, ...] = ()
    if journal is not None:
        with closing(journal):
            conversions = tuple(journal.conversions())
    return pools_view(_only(pools, pool), sides, conversions, datetime.now(UTC).astimezone())


def _only(pools: Pools, name: str | None) -> Pools:
    if name is None:
        return pools
    if name not in pools.pools:
        raise Failure(
            f"there is no pool {name}", remedy=f"the pools are {', '.join(pools.pools)}", code=NOT_THERE
        )
    return replace(pools, pools={name: pools.pools[name]})
