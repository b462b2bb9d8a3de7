"""ConvergedNodePool: machines that are alike, each of which serves Slurm or Kubernetes. A machine and a role for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import pulumi
from pulumi import Input, Output

from tidepool import resources
from tidepool.cluster import hostlist
from tidepool.cluster.desired_state import role_set
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.kubelet_files import PodRoute, pod_routes
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.roles import ROLES, Role
from tidepool.cluster.spec import ClusterSpec
from tidepool.components.boots import converged_boot, role_files
from tidepool.components.slurm_controller import SlurmController
from tidepool.infrastructures.boot import Boot
from tidepool.infrastructures.contract import MachineOrder


class ReachedKubernetes(Protocol):
    """The Kubernetes that pools serve: a `KubernetesControlPlane`, or a `KubernetesAccess`."""

    access: Output[str]
    """Name of the `Access`."""
    authority_certificate: Output[str]
    """PEM, by which the API server is known."""


class ConvergedNodePool(pulumi.ComponentResource):
    """A pool: its slots, and for each of its machines that machine, and the role that it has.

    A role that changes is an update in place: the machine stays.

    Args:
        name: the pool's, as the controller knows it.
        controller: the cluster's, whose spec has the pool and the Kubernetes that it serves.
        kubernetes: that Kubernetes.
        roles: what each machine is to be, by node name; by default as at the first `up` (`tidepool.cluster.desired_state`).
        serving: a hostlist of those that served Kubernetes last.
        only: those of the machines that are registered, as of a `ComputeFleet`.
        opts: Pulumi's.
    """

    roles: Output[Mapping[str, str]]
    """By role, a hostlist of the machines that have it. One that was not given the role it should have keeps its old one."""

    def __init__(
        self,
        name: str,
        *,
        controller: SlurmController,
        kubernetes: ReachedKubernetes,
        roles: Mapping[str, Role] | None = None,
        serving: str = "",
        only: HostSet | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Register it.

        Raises:
            pulumi.RunError: the controller does not know the pool; says the remedy.
        """
        pool = _known_pool(name, controller)
        super().__init__(
            "tidepool:components:ConvergedNodePool", name, None, controller.locations.options(opts)
        )
        mine = pulumi.ResourceOptions(parent=self)
        roles = role_set(pool) if roles is None else roles
        own = controller.locations.own.with_image(pool.image)
        boot = own.infrastructure.boot(pool.name, _boot(pool, controller), mine)
        machine_boots = {
            node: own.infrastructure.boot(f"{pool.name}-controller", _boot(pool, controller, slurmctld), mine)
            for node, slurmctld in controller.pool_controllers.items()
            if node in roles
        }
        routes = _routes(controller.spec)
        files = role_files(controller.keys, authority=kubernetes.authority_certificate, routes=routes)
        boots: dict[str, Output[str]] = {
            role: own.infrastructure.boot(f"{pool.name}-{role}", files[role], mine) for role in ROLES
        }
        pods = {route.node: str(route.subnet) for route in routes}
        # Power saving would ask for a machine that serves Kubernetes: in each mode, slots are FUTURE.
        slots = controller.register_slots(pool, pool.slots(), "FUTURE", self)
        # As of fleets: a slurmd that registers before its slot is there makes a node of its own.
        beside = pulumi.ResourceOptions(parent=self, depends_on=[slots], replace_with=[slots])
        served = HostSet(serving)
        were: dict[str, Role] = {node: "kubernetes" if node in served else "slurm" for node in roles}
        found: dict[str, Input[Role]] = {**were}
        for slot in pool.slots():
            node = slot.node_name
            if only is not None and node not in only:
                continue
            order = MachineOrder(
                node, own.network, slot.address, pool.shape, own.image, machine_boots.get(node, boot)
            )
            role = resources.Role(
                node,
                node=node,
                pool=pool.name,
                role=roles[node],
                machine=own.infrastructure.machine(order, beside).connection,
                controller=controller.connection,
                access=kubernetes.access,
                boots=boots,
                pod_subnet=pods[node],
                labels=dict(pool.labels) or None,
                deadline_s=pool.deadline_s,
                at_deadline=pool.at_deadline,
                slots=slots.id,
                slurmctld=controller.configuration.digest if node in machine_boots else None,
                opts=mine,
            )
            found[node] = role.role.recover(_keeping(were[node]))
        self.roles = Output.all(**found).apply(_by_role)
        self.register_outputs({"roles": self.roles})


def _known_pool(name: str, controller: SlurmController) -> ConvergedPool:
    spec = controller.spec
    try:
        return spec.pool(name)
    except KeyError:
        known = ", ".join(pool.name for pool in spec.pools) or "none"
        raise pulumi.RunError(
            f"ConvergedNodePool {name}: the configuration of the controller {spec.name} has no such pool; its pools are: "
            f'{known}. Give it to the controller: SlurmController("{spec.name}", pools=[PoolArgs(name="{name}", ...)])'
        ) from None


def _routes(spec: ClusterSpec) -> Sequence[PodRoute]:
    """Return the routes to the pods of all machines of all pools."""
    return () if spec.kubernetes is None else pod_routes(spec.kubernetes.pod_network, spec.pools)


def _boot(pool: ConvergedPool, controller: SlurmController, slurmctld: Boot | None = None) -> Boot:
    return converged_boot(
        controller.keys,
        home=controller.home,
        controllers=controller.hosts,
        pool=pool,
        stack=controller.locations.stack,
        is_named=controller.names_slots,
        slurmctld=slurmctld,
    )


def _keeping(was: Role) -> Callable[[Exception], Role]:
    """Return what counts where a role could not be changed."""
    return lambda _failure: was


def _by_role(found: Mapping[str, Role]) -> Mapping[str, str]:
    return {str(role): hostlist.fold(node for node, its in found.items() if its == role) for role in ROLES}
