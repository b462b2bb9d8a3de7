"""Cluster: a whole cluster from its spec, with all fleets and pools."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi import Input, Output

from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.components.account_tree import AccountTree
from tidepool.components.compute_fleet import ComputeFleet
from tidepool.components.desired_state import DesiredState
from tidepool.components.files import Files, file_outputs
from tidepool.components.scratch import has_files
from tidepool.components.shared_accounting import sharing_outputs
from tidepool.components.slurm_controller import SlurmController
from tidepool.infrastructures.remote import ssh_outputs

if TYPE_CHECKING:
    from tidepool.components.converged_node_pool import ConvergedNodePool
    from tidepool.components.kubernetes_control_plane import KubernetesAccess, KubernetesControlPlane


class Cluster:
    """A cluster: its controller, a `ComputeFleet` for each fleet, a `ConvergedNodePool` for each pool.

    It is no resource itself: its components are at the top of the stack, or below its scope where there are several
    clusters in a program (docs/adr/0035-components-for-programs-elsewhere.md).

    Args:
        name: the name of the controller's resource; the cluster's own is a good one.
        desired: a spec; or what the stack's configuration and the scaler ask for (`desired_state`).
        scope: sets its resources apart from those of other clusters in the same program.
        folder: where recipes of images and playbooks are looked for first; by default where the program runs.
        toolchain: the folder of Kubernetes' programs, for a control plane of its own; by default that which
            `tidepool.toolchain.find` finds.
        opts: of the controller and all fleets and pools.

    Raises:
        pulumi.RunError: it cannot be; says why, and the remedy.
    """

    spec: ClusterSpec
    """The whole cluster."""
    controller: SlurmController
    """Its own machines."""
    fleets: Mapping[str, ComputeFleet]
    """By name, its fleets."""
    pools: Mapping[str, ConvergedNodePool]
    """By name, its pools."""
    kubernetes: KubernetesAccess | KubernetesControlPlane | None
    """The Kubernetes that pools serve; None where there is none."""

    def __init__(
        self,
        name: str,
        desired: ClusterSpec | DesiredState,
        *,
        scope: str = "",
        folder: Path | None = None,
        toolchain: Path | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        state = DesiredState.at_first(desired) if isinstance(desired, ClusterSpec) else desired
        self._state, self._opts = state, opts
        self.spec = state.spec
        self.controller = SlurmController(
            name,
            state.spec,
            known_users=state.users,
            nodes=state.nodes,
            accounting_key=state.accounting_key,
            scope=scope,
            folder=folder,
            opts=opts,
        )
        self.fleets = {
            fleet.name: ComputeFleet(
                fleet.name,
                controller=self.controller,
                nodes=state.nodes[fleet.name],
                suspended=state.suspended.get(fleet.name, HostSet()),
                placements=state.placements[fleet.name],
                only=state.only,
                opts=opts,
            )
            for fleet in state.spec.fleets
        }
        # The scaler acts on nodes alone, and takes no longer for a thousand users.
        if (state.spec.accounts or state.spec.qos) and state.only is None:
            AccountTree(name, controller=self.controller, opts=opts)
        if has_files(state.spec, state.users) and state.only is None:
            Files(name, controller=self.controller, opts=opts)
        self.kubernetes, self.pools = None, {}
        if state.spec.kubernetes is not None:
            self.kubernetes = self._kubernetes(name, state.spec.kubernetes.kubeconfig, toolchain)
            self.pools = self._pools(self.kubernetes)

    @property
    def outputs(self) -> Mapping[str, Any]:
        """Outputs that a stack needs for the verbs of `tidepool` and for the scaler: the program exports each under its name."""
        controller = self.controller
        outputs: dict[str, Input[Any]] = {
            **self._state.outputs,
            "cluster": self.spec.name,
            "network": str(self.spec.network),
            "controller": controller.connection,
            "logins": list(controller.logins.values()),
            "fleets": {name: fleet.nodes for name, fleet in self.fleets.items()},
            "sshKey": controller.private_key,
            **ssh_outputs(),
        }
        outputs |= sharing_outputs(self.spec, controller.keys, controller.accounting_server)
        if controller.file_server is not None:
            outputs["fileServer"] = controller.file_server.connection
        if has_files(self.spec, controller.known_users):
            outputs["files"] = file_outputs(controller)
        if self.kubernetes is not None:
            outputs["pools"] = Output.from_input({name: pool.roles for name, pool in self.pools.items()})
            outputs["kubernetes"] = Output.from_input(
                {"access": self.kubernetes.access, "server": self.kubernetes.server}
            )
        return outputs

    def _kubernetes(
        self, name: str, kubeconfig: str | None, toolchain: Path | None
    ) -> KubernetesAccess | KubernetesControlPlane:
        # A cluster without pools waits for nothing of Kubernetes.
        from tidepool.components.kubernetes_control_plane import KubernetesAccess, KubernetesControlPlane
        from tidepool.toolchain import find

        locations = self.controller.locations
        if kubeconfig is not None:
            path = Path(kubeconfig).absolute()
            return KubernetesAccess(name, locations=locations, kubeconfig=path, opts=self._opts)
        tools = str(toolchain or find(os.environ).folder)
        return KubernetesControlPlane(name, locations=locations, toolchain=tools, opts=self._opts)

    def _pools(
        self, kubernetes: KubernetesAccess | KubernetesControlPlane
    ) -> Mapping[str, ConvergedNodePool]:
        from tidepool.components.converged_node_pool import ConvergedNodePool

        return {
            pool.name: ConvergedNodePool(
                pool.name,
                controller=self.controller,
                kubernetes=kubernetes,
                roles=self._state.roles[pool.name],
                serving=self._state.serving.get(pool.name, ""),
                only=self._state.only,
                opts=self._opts,
            )
            for pool in self.spec.pools
        }
