"""ComputeFleet: nodes that are alike, on one infrastructure or several. A machine and a membership for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pulumi
from pulumi import Input, Output

from tidepool import resources
from tidepool.cluster.desired_state import all_slots, node_placements, node_set, slots_of
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.fleet import Infrastructure as FleetEntry
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.slots import Slot
from tidepool.components.boots import node_boot
from tidepool.components.slurm_controller import SlurmController, known_part
from tidepool.infrastructures.contract import Infrastructure, MachineOrder, Prepared


@dataclass(frozen=True, slots=True)
class _MachineSource:
    """An infrastructure of a fleet, and what machines are made from there."""

    infrastructure: Infrastructure
    network: Input[str]
    image: Input[str]
    boot: Output[str]


class ComputeFleet(pulumi.ComponentResource):
    """A fleet: its slots, and for each of its nodes a machine, and the membership that depends on both.

    Shape, subnet, image and infrastructures are those that the controller's configuration has for it.

    Args:
        name: the fleet's, as the controller knows it.
        controller: the cluster's.
        nodes: names of the nodes that should be there: a hostlist, or a set of names (`tidepool.cluster.desired_state`). By
            default the first ``min_nodes``.
        suspended: names of nodes that should not be there, and whose machines are kept, suspended: they were nodes before.
        placements: by node the key of the infrastructure on which it is, where that is decided. The others are on the first
            that has room (`tidepool.cluster.desired_state`).
        only: those of the nodes that are registered, for an operation that is limited to them (``--target``): it lets all
            others be, registered or not, and takes no longer for them. Any other operation would take them away.
        opts: Pulumi's.
    """

    nodes: Output[str]
    """A hostlist of the nodes that should be there. Known in previews, and when some of them could not be made."""

    def __init__(
        self,
        name: str,
        *,
        controller: SlurmController,
        nodes: str | Iterable[str] | None = None,
        suspended: HostSet = HostSet(),  # noqa: B008 - frozen
        placements: Mapping[str, str] = FrozenDict(),
        only: HostSet | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Register it.

        Raises:
            pulumi.RunError: the controller does not know the fleet, or a node is none of the fleet's, or can be nowhere; says
                which are, and the remedy.
        """
        fleet = known_part("ComputeFleet", controller.spec, "fleet", controller.spec.fleets, name)
        super().__init__("tidepool:components:ComputeFleet", name, None, controller.locations.options(opts))
        mine = pulumi.ResourceOptions(parent=self)
        slots_here = _slots(fleet, nodes)
        nodes_here = HostSet.from_names(slot.node_name for slot in slots_here)
        slots_here += _slots(fleet, suspended - nodes_here)
        keys = _placements(fleet, slots_here, placements)
        sources = {entry.key: self._source(fleet, entry, controller) for entry in fleet.infrastructures}
        there = HostSet.from_names(slot.node_name for slot in slots_here)
        slots = controller.register_slots(fleet, all_slots(fleet, there), controller.slot_state, self)
        # A machine boots when its slot is there: a slurmd that registers before makes a node of its own, which no
        # slot comes to be. Other slots are other nodes, and slurmd has told its shape at its start.
        beside = pulumi.ResourceOptions(parent=self, depends_on=[slots], replace_with=[slots])
        # One that is suspended registers with nobody, and could not answer: what is made anew of it is when it goes on.
        apart = pulumi.ResourceOptions(parent=self, depends_on=[slots])
        for slot in slots_here:
            if only is not None and slot.node_name not in only:
                continue
            source = sources[keys[slot.node_name]]
            is_suspended = slot.node_name not in nodes_here
            order = MachineOrder(
                slot.node_name,
                source.network,
                slot.address,
                fleet.shape,
                source.image,
                source.boot,
                is_suspended=is_suspended,
            )
            machine = source.infrastructure.machine(order, apart if is_suspended else beside)
            resources.Node(
                slot.node_name,
                controller=controller.connection,
                node=slot.node_name,
                machine=machine.connection,
                slots=slots.id,
                power="suspended" if is_suspended else None,
                suspension=machine.suspension if is_suspended else None,
                opts=mine,
            )
        self.nodes = Output.from_input(str(nodes_here))
        self.register_outputs({"nodes": self.nodes})

    def _source(self, fleet: Fleet, entry: FleetEntry, controller: SlurmController) -> _MachineSource:
        """Register what the fleet has on one of its infrastructures, with nodes there or without."""
        mine = pulumi.ResourceOptions(parent=self)
        location = controller.locations.by_name[entry.name]
        image = location.images[controller.spec.fleet_image(fleet, entry)]
        infrastructure = location.infrastructure.for_fleet(fleet.only_on(entry))
        if isinstance(infrastructure, Prepared):
            infrastructure.prepare(image, mine)
        boot = infrastructure.boot(
            fleet.boot_name(entry),
            node_boot(
                controller.keys,
                home=controller.home if location.home is None else location.home,
                scratch=controller.scratch if location.scratch is None else location.scratch,
                controllers=controller.hosts,
                shape=fleet.shape,
                is_named=controller.names_slots,
                confined=controller.spec.confines_jobs,
                first_boot=controller.spec.first_boot,
            ),
            mine,
        )
        return _MachineSource(infrastructure, location.network, image, boot)


def _placements(fleet: Fleet, slots: Iterable[Slot], known: Mapping[str, str]) -> Mapping[str, str]:
    try:
        return node_placements(fleet, [slot.node_name for slot in slots], known)
    except ValueError as error:
        raise pulumi.RunError(str(error)) from error


def _slots(fleet: Fleet, nodes: str | Iterable[str] | None) -> tuple[Slot, ...]:
    try:
        if nodes is None:
            return slots_of(fleet, node_set(fleet))
        return slots_of(fleet, HostSet(nodes) if isinstance(nodes, str) else HostSet.from_names(nodes))
    except ValueError as error:
        # A program that names wrong nodes ends with these words, and without a traceback.
        raise pulumi.RunError(str(error)) from error
