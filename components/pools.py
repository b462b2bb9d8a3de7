"""The pools of a spec, and the Kubernetes that they serve: what the program adds where there are any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi import Input, Output

from tidepool.cluster.pod_network import pod_routes
from tidepool.cluster.pool import Kubernetes
from tidepool.components.converged_node_pool import ConvergedNodePool, ConvergedNodePoolArgs
from tidepool.components.desired_state import Asked
from tidepool.components.kubernetes_access import KubernetesAccess
from tidepool.components.kubernetes_control_plane import KubernetesControlPlane, KubernetesControlPlaneArgs
from tidepool.components.slurm_controller import SlurmController
from tidepool.infrastructures.contract import Infrastructure


@dataclass(frozen=True, slots=True)
class PoolsArgs:
    """What they are made from; ``images`` are digests by the names of images, ``stack`` is Pulumi's.

    ``toolchain`` is the folder of Kubernetes' programs (`tidepool.toolchain.find`), for a control plane of the cluster's own.
    """

    asked: Asked
    controller: SlurmController
    infrastructure: Infrastructure
    network: Input[str]
    images: Mapping[str, Input[str]]
    stack: str
    toolchain: Path


def pools_of(args: PoolsArgs) -> Mapping[str, Output[Any]]:
    """Register all pools of the spec, and their Kubernetes; gives what the stack exports of them."""
    spec = args.asked.spec
    if spec.kubernetes is None:
        return {}
    routes = pod_routes(spec.kubernetes.pod_network, spec.pools)
    kubernetes = _kubernetes(args, spec.kubernetes)
    pools = {}
    for pool in spec.pools:
        made = ConvergedNodePoolArgs(
            pool=pool,
            roles=args.asked.roles[pool.name],
            controller=args.controller,
            kubernetes=kubernetes,
            routes=routes,
            infrastructure=args.infrastructure,
            network=args.network,
            image=args.images[pool.image],
            stack=args.stack,
            serving=args.asked.serving.get(pool.name, ""),
            only=args.asked.only,
        )
        pools[pool.name] = ConvergedNodePool(pool.name, made).roles
    reached = {"access": kubernetes.access, "server": kubernetes.server}
    return {"pools": Output.from_input(pools), "kubernetes": Output.from_input(reached)}


def _kubernetes(args: PoolsArgs, wanted: Kubernetes) -> KubernetesAccess | KubernetesControlPlane:
    spec = args.asked.spec
    if wanted.kubeconfig is not None:
        return KubernetesAccess(spec.name, args.stack, Path(wanted.kubeconfig).absolute())
    made = KubernetesControlPlaneArgs(
        stack=args.stack,
        spec=spec,
        kubernetes=wanted,
        infrastructure=args.infrastructure,
        network=args.network,
        image=args.images[spec.controller_image],
        toolchain=str(args.toolchain),
        routes=pod_routes(wanted.pod_network, spec.pools),
    )
    return KubernetesControlPlane(spec.name, made)
