"""Looks at pools from all sides: the stack's outputs, the journal of conversions, Slurm and Kubernetes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidepool.cli.context import Connection
from tidepool.cli.pools.checks import KubernetesSeen
from tidepool.cli.pools.place import Pools
from tidepool.cli.stack import Stack

if TYPE_CHECKING:
    from tidepool.clients.kubernetes.objects import Pod
    from tidepool.clients.slurm import Job, Node
    from tidepool.cluster.pool import ConvergedPool
    from tidepool.cluster.roles import Role
    from tidepool.conversion.record import Conversion


@dataclass(frozen=True, slots=True)
class SlurmSeen:
    """What Slurm said of the machines of pools; ``failure`` says why it could not be asked (empty: it could)."""

    failure: str = ""
    nodes: Mapping[str, Node] | None = None
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides as they see the machines, and the pods there are."""

    slurm: SlurmSeen
    kubernetes: KubernetesSeen
    pods: tuple[Pod, ...] = ()


def both_sides(stack: Stack, controller: Connection, pools: Pools) -> Sides:
    """What Slurm and Kubernetes say now, asked side by side."""
    with ThreadPoolExecutor(2) as beside:
        slurm = beside.submit(_slurm, stack, controller)
        kubernetes, pods = kubernetes_seen(stack, pools.kubernetes, with_pods=True)
        return Sides(slurm.result(), kubernetes, pods)


def busy(stack: Stack, controller: Connection, pools: Pools, leaves: Role) -> frozenset[str]:
    """The machines of pools that have jobs, or pods, whichever it is; none where that cannot be asked."""
    from tidepool.cli.jobs import jobs_by_node

    if leaves == "slurm":
        return frozenset(jobs_by_node(_slurm(stack, controller).jobs))
    _, pods = kubernetes_seen(stack, pools.kubernetes, with_pods=True)
    return frozenset(
        pod.node for pod in pods if not pod.has_ended and not pod.is_static and not pod.is_daemon
    )


def kubernetes_seen(
    stack: Stack, connection: Connection | None, *, with_pods: bool = False, with_rights: bool = False
) -> tuple[KubernetesSeen, tuple[Pod, ...]]:
    """What the API server says; why it cannot be asked, where it cannot."""
    # Late: it is not needed where no pool is.
    from tidepool.clients.kubernetes.errors import KubernetesError

    if connection is None:
        return KubernetesSeen("the stack's outputs tell of no Kubernetes; `tidepool up` makes it"), ()
    try:
        with closing(stack.world.open_kubernetes(connection, stack.data)) as client:
            missing = tuple(client.missing_rights()) if with_rights else ()
            if missing:
                return KubernetesSeen("", missing), ()  # each is named; what it may not see is not known
            return KubernetesSeen("", (), client.nodes()), client.pods() if with_pods else ()
    except KubernetesError as error:
        return KubernetesSeen(str(error)), ()


def under_way(conversions: Iterable[Conversion]) -> dict[str, Conversion]:
    """By node the conversion that has not ended."""
    return {each.order.node: each for each in conversions if each.is_under_way}


def image_roles(stack: Stack, pools: Iterable[ConvergedPool]) -> dict[str, Collection[Role]]:
    """By image the roles that it holds, by the manifest of the newest one; an image that is not built is left out."""
    from tidepool.images.store import ImageStore

    store = ImageStore(Path(stack.world.env.get("TIDEPOOL_IMAGES") or stack.data / "images"))
    wanted = {pool.image for pool in pools}
    built = sorted(store.images(), key=lambda image: image.folder.stat().st_mtime)
    return {image.name: image.holds for image in built if image.name in wanted}


def _slurm(stack: Stack, controller: Connection) -> SlurmSeen:
    from tidepool.clients.slurm import SlurmError

    try:
        with closing(stack.world.open_slurm(controller, stack.data)) as slurm:
            return SlurmSeen("", {node.name: node for node in slurm.nodes()}, tuple(slurm.jobs()))
    except SlurmError as error:
        return SlurmSeen(f"{error.what} ({error.where})")
