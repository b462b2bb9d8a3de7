"""The components that a cluster is made of, and the vocabulary in which programs speak of it.

Components take typed arguments, read no configuration, and register their outputs.

    controller = SlurmController(
        "physics",
        network="10.80.0.0/16",
        fleets=[FleetArgs(name="cpu", max_nodes=8, shape=Shape(cpus=4, memory_mib=8192))],
    )
    ComputeFleet("cpu", controller=controller, nodes="cpu-[1-2]")

`Cluster` does all of this from a spec.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidepool.cluster.accounting import Accounting as Accounting
from tidepool.cluster.accounting import SharedWith as SharedWith
from tidepool.cluster.fleet import Infrastructure as Infrastructure
from tidepool.cluster.offering import OfferedMachines as OfferedMachines
from tidepool.cluster.offering import Offering as Offering
from tidepool.cluster.pool import Kubernetes as Kubernetes
from tidepool.cluster.shape import Shape as Shape
from tidepool.cluster.spec import ClusterSpec as ClusterSpec
from tidepool.cluster.spec import Controller as Controller
from tidepool.cluster.spec import Limits as Limits
from tidepool.cluster.spec import Partition as Partition
from tidepool.components.account_tree import AccountTree as AccountTree
from tidepool.components.cluster import Cluster as Cluster
from tidepool.components.compute_fleet import ComputeFleet as ComputeFleet
from tidepool.components.desired_state import DesiredState as DesiredState
from tidepool.components.desired_state import desired_state as desired_state
from tidepool.components.golden_image import GoldenImage as GoldenImage
from tidepool.components.locations import Location as Location
from tidepool.components.locations import Locations as Locations
from tidepool.components.locations import register_locations as register_locations
from tidepool.components.slurm_controller import FleetArgs as FleetArgs
from tidepool.components.slurm_controller import PoolArgs as PoolArgs
from tidepool.components.slurm_controller import SlurmController as SlurmController
from tidepool.components.slurm_controller import cluster_spec as cluster_spec

if TYPE_CHECKING:
    from tidepool.components.converged_node_pool import ConvergedNodePool as ConvergedNodePool
    from tidepool.components.ephemeral_cluster import EphemeralCluster as EphemeralCluster
    from tidepool.components.kubernetes_control_plane import KubernetesAccess as KubernetesAccess
    from tidepool.components.kubernetes_control_plane import KubernetesControlPlane as KubernetesControlPlane

#: Names that are imported when they are asked for: a cluster without pools waits for nothing of Kubernetes, nor of runs.
_LATER: Final = {
    "ConvergedNodePool": "converged_node_pool",
    "EphemeralCluster": "ephemeral_cluster",
    "KubernetesAccess": "kubernetes_control_plane",
    "KubernetesControlPlane": "kubernetes_control_plane",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
