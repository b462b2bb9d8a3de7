"""ComputeFleet: nodes that are alike, on one infrastructure. A machine and a membership for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pulumi
from pulumi import Input, Output

from tidepool import resources
from tidepool.cluster import hostlist
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.node_set import slots_of
from tidepool.cluster.slots import Slot
from tidepool.cluster.spec import Fleet
from tidepool.components.boots import node_boot
from tidepool.components.infrastructure.contract import Infrastructure, MachineOrder
from tidepool.components.slurm_controller import SlurmController


@dataclass(frozen=True, slots=True)
class ComputeFleetArgs:
    """What a fleet is made from.

    ``nodes`` are the names of the nodes that should be there: a hostlist, or a set of names
    (`tidepool.cluster.node_set`). ``network`` is what ``infrastructure`` gave for the cluster's network, ``image``
    an image's digest.

    ``only`` are those of them that are registered, for an operation that is limited to them (``--target``): it lets
    all others stand, registered or not, and takes no longer for them. Any other operation would take them away.
    """

    fleet: Fleet
    nodes: str | Iterable[str]
    controller: SlurmController
    infrastructure: Infrastructure
    network: Input[str]
    image: Input[str]
    only: HostSet | None = None


class ComputeFleet(pulumi.ComponentResource):
    """A fleet: its slots, and for each of its nodes a machine, and the membership that depends on both."""

    #: A hostlist of those that should be there. Known in previews, and when some of them could not be made.
    nodes: Output[str]

    def __init__(self, name: str, args: ComputeFleetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register it.

        Raises:
            pulumi.RunError: a node is none of the fleet's; says which are.
        """
        super().__init__("tidepool:components:ComputeFleet", name, None, opts)
        fleet, controller, mine = args.fleet, args.controller, pulumi.ResourceOptions(parent=self)
        nodes = _chosen(fleet, args.nodes)
        boot = args.infrastructure.boot(
            fleet.name,
            node_boot(
                controller.keys,
                home=controller.home,
                controllers=controller.hosts,
                shape=fleet.shape,
                is_named=controller.names_slots,
            ),
            mine,
        )
        # Nodes above max_nodes are there until somebody drains them; Slurm must not forget them.
        slots = self._slots(args, sorted({*fleet.slots(), *nodes}, key=lambda slot: slot.number))
        # A machine boots when its slot is there: a slurmd that registers before makes a node of its own, which no
        # slot comes to be. Other slots are other nodes, and slurmd has told its shape at its start.
        beside = pulumi.ResourceOptions(parent=self, depends_on=[slots], replace_with=[slots])
        for slot in nodes:
            if args.only is not None and slot.node_name not in args.only:
                continue
            order = MachineOrder(slot.node_name, args.network, slot.address, fleet.shape, args.image, boot)
            resources.Node(
                slot.node_name,
                controller=controller.connection,
                node=slot.node_name,
                machine=args.infrastructure.machine(order, beside).connection,
                slots=slots.id,
                opts=mine,
            )
        self.nodes = Output.from_input(hostlist.fold(slot.node_name for slot in nodes))
        self.register_outputs({"nodes": self.nodes})

    def _slots(self, args: ComputeFleetArgs, slots: list[Slot]) -> resources.Slots:
        shape = args.fleet.shape
        sockets, cores_per_socket, threads_per_core = shape.layout
        return resources.Slots(
            args.fleet.name,
            controller=args.controller.connection,
            names=hostlist.fold(slot.node_name for slot in slots),
            addresses=hostlist.fold(str(slot.address) for slot in slots),
            cpus=shape.cpus,
            sockets=sockets,
            cores_per_socket=cores_per_socket,
            threads_per_core=threads_per_core,
            memory_mib=shape.memory_mib,
            # Node sets find a fleet's nodes by its name.
            features=[args.fleet.name, *args.fleet.features],
            gres=",".join(map(str, shape.gres)),
            state=args.controller.slot_state,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[args.controller.configuration]),
        )


def _chosen(fleet: Fleet, nodes: str | Iterable[str]) -> tuple[Slot, ...]:
    try:
        return slots_of(fleet, HostSet(nodes) if isinstance(nodes, str) else HostSet.from_names(nodes))
    except ValueError as error:
        # A program that names wrong nodes ends with these words, and without a traceback.
        raise pulumi.RunError(str(error)) from error
