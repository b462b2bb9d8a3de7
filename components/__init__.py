"""What a stack is made of. Components take typed arguments, read no configuration, and register what they give.

infrastructure = Local(stack=pulumi.get_stack())
network = infrastructure.network("net", spec.network)
image = GoldenImage("slurm", recipe="images/debian-12", playbooks="playbooks").digest
controller = SlurmController(spec.name, SlurmControllerArgs(spec, infrastructure, network, image))
here = Site(infrastructure, network, image)
for fleet in spec.fleets:
    nodes = node_set(fleet, last=None)  # tidepool.cluster.node_set
    ComputeFleet(fleet.name, ComputeFleetArgs(fleet, nodes, controller, {fleet.infrastructures[0].key: here}))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidepool.components.compute_fleet import ComputeFleet as ComputeFleet
from tidepool.components.compute_fleet import ComputeFleetArgs as ComputeFleetArgs
from tidepool.components.contexts import Sites as Sites
from tidepool.components.contexts import sites_of as sites_of
from tidepool.components.desired_state import asked as asked
from tidepool.components.golden_image import GoldenImage as GoldenImage
from tidepool.components.last_outputs import last_outputs as last_outputs
from tidepool.components.slurm_controller import SlurmController as SlurmController
from tidepool.components.slurm_controller import SlurmControllerArgs as SlurmControllerArgs
from tidepool.infrastructures.context import Site as Site
from tidepool.infrastructures.local.graph import Local as Local
from tidepool.infrastructures.registry import infrastructure_of as infrastructure_of
from tidepool.infrastructures.registry import infrastructures_of as infrastructures_of

if TYPE_CHECKING:
    from tidepool.components.converged_node_pool import ConvergedNodePool as ConvergedNodePool
    from tidepool.components.converged_node_pool import ConvergedNodePoolArgs as ConvergedNodePoolArgs
    from tidepool.components.kubernetes_access import KubernetesAccess as KubernetesAccess
    from tidepool.components.kubernetes_control_plane import KubernetesControlPlane as KubernetesControlPlane
    from tidepool.components.kubernetes_control_plane import (
        KubernetesControlPlaneArgs as KubernetesControlPlaneArgs,
    )
    from tidepool.components.pools import PoolsArgs as PoolsArgs
    from tidepool.components.pools import pools_of as pools_of

#: What is imported when it is asked for: a cluster without pools waits for nothing of Kubernetes.
_LATER: Final = {
    "ConvergedNodePool": "converged_node_pool",
    "ConvergedNodePoolArgs": "converged_node_pool",
    "KubernetesAccess": "kubernetes_access",
    "KubernetesControlPlane": "kubernetes_control_plane",
    "KubernetesControlPlaneArgs": "kubernetes_control_plane",
    "PoolsArgs": "pools",
    "pools_of": "pools",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
