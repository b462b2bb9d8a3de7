"""ConvergedNodePool: machines that are alike, each of which serves Slurm or Kubernetes. A machine and a role for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pulumi
from pulumi import Input, Output

from tidepool import resources
from tidepool.cluster import hostlist
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.pod_network import PodRoute
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.roles import ROLES, Role
from tidepool.components.boots import converged_boot, role_files
from tidepool.components.slots import told_slots
from tidepool.components.slurm_controller import SlurmController
from tidepool.infrastructures.boot import Boot
from tidepool.infrastructures.contract import Infrastructure, MachineOrder


class ReachedKubernetes(Protocol):
    """The Kubernetes that pools serve: a `KubernetesControlPlane`, or a `KubernetesAccess`."""

    #: Name of the `Access`.
    access: Output[str]
    #: PEM, by which the API server is known.
    authority_certificate: Output[str]


@dataclass(frozen=True, slots=True)
class ConvergedNodePoolArgs:
    """What a pool is made from.

    ``roles`` says what each machine is to be, by node name (`tidepool.cluster.role_set`), and ``serving`` which of them
    served Kubernetes last: a hostlist. ``routes`` lead to the pods of all machines of all pools
    (`tidepool.cluster.pod_network`). ``network`` is what ``infrastructure`` gave for the cluster's network, ``image`` the
    digest of an image that holds both roles, ``stack`` Pulumi's.

    ``only`` are those of the machines that are registered, as of a `ComputeFleet`.
    """

    pool: ConvergedPool
    roles: Mapping[str, Role]
    controller: SlurmController
    kubernetes: ReachedKubernetes
    routes: Sequence[PodRoute]
    infrastructure: Infrastructure
    network: Input[str]
    image: Input[str]
    stack: str
    serving: str = ""
    only: HostSet | None = None


class ConvergedNodePool(pulumi.ComponentResource):
    """A pool: its slots, and for each of its machines that machine, and the role that it has.

    A role that changes is an update in place: the machine stays.
    """

    #: By role a hostlist of the machines that have it. One that was not given the role it should have keeps its old one.
    roles: Output[Mapping[str, str]]

    def __init__(
        self, name: str, args: ConvergedNodePoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tidepool:components:ConvergedNodePool", name, None, opts)
        pool, controller, mine = args.pool, args.controller, pulumi.ResourceOptions(parent=self)
        keys = controller.keys
        boot = args.infrastructure.boot(pool.name, _boot(args), mine)
        machine_boots = {
            node: args.infrastructure.boot(f"{pool.name}-controller", _boot(args, slurmctld), mine)
            for node, slurmctld in controller.pool_controllers.items()
            if node in args.roles
        }
        files = role_files(keys, authority=args.kubernetes.authority_certificate, routes=args.routes)
        boots: dict[str, Output[str]] = {
            role: args.infrastructure.boot(f"{pool.name}-{role}", files[role], mine) for role in ROLES
        }
        pods = {route.node: str(route.subnet) for route in args.routes}
        # Power saving would ask for a machine that serves Kubernetes: in each mode, slots are FUTURE.
        slots = told_slots(pool, pool.slots(), controller, "FUTURE", self)
        # As of fleets: a slurmd that registers before its slot is there makes a node of its own.
        beside = pulumi.ResourceOptions(parent=self, depends_on=[slots], replace_with=[slots])
        served = HostSet(args.serving)
        were: dict[str, Role] = {node: "kubernetes" if node in served else "slurm" for node in args.roles}
        found: dict[str, Input[Role]] = {**were}
        for slot in pool.slots():
            node = slot.node_name
            if args.only is not None and node not in args.only:
                continue
            order = MachineOrder(
                node, args.network, slot.address, pool.shape, args.image, machine_boots.get(node, boot)
            )
            role = resources.Role(
                node,
                node=node,
                pool=pool.name,
                role=args.roles[node],
                machine=args.infrastructure.machine(order, beside).connection,
                controller=controller.connection,
                access=args.kubernetes.access,
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


def _boot(args: ConvergedNodePoolArgs, slurmctld: Boot | None = None) -> Boot:
    return converged_boot(
        args.controller.keys,
        home=args.controller.home,
        controllers=args.controller.hosts,
        pool=args.pool,
        stack=args.stack,
        is_named=args.controller.names_slots,
        slurmctld=slurmctld,
    )


def _keeping(was: Role) -> Callable[[Exception], Role]:
    """What counts where a role could not be changed."""
    return lambda _failure: was


def _by_role(found: Mapping[str, Role]) -> Mapping[str, str]:
    return {str(role): hostlist.fold(node for node, its in found.items() if its == role) for role in ROLES}
