"""ComputeFleet: nodes that are alike, on one infrastructure or several. A machine and a membership for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pulumi
from pulumi import Output

from tidepool import resources
from tidepool.cluster import hostlist
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.node_placements import node_places
from tidepool.cluster.node_set import slots_of
from tidepool.cluster.slots import Slot
from tidepool.cluster.spec import Fleet
from tidepool.cluster.spec import Infrastructure as FleetEntry
from tidepool.components.boots import node_boot
from tidepool.components.slots import told_slots
from tidepool.components.slurm_controller import SlurmController
from tidepool.infrastructures.context import Site
from tidepool.infrastructures.contract import Infrastructure, MachineOrder, Prepared


@dataclass(frozen=True, slots=True)
class ComputeFleetArgs:
    """What a fleet is made from.

    ``nodes`` are the names of the nodes that should be there: a hostlist, or a set of names
    (`tidepool.cluster.node_set`). ``sites`` are where they can be: by the keys of the fleet's infrastructures, one for
    each. ``places`` are the keys of those nodes of which it is decided where they are; the others are on the first that has
    room (`tidepool.cluster.node_placements`).

    ``only`` are those of them that are registered, for an operation that is limited to them (``--target``): it lets
    all others stand, registered or not, and takes no longer for them. Any other operation would take them away.
    """

    fleet: Fleet
    nodes: str | Iterable[str]
    controller: SlurmController
    sites: Mapping[str, Site]
    only: HostSet | None = None
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Ground:
    """What machines of a fleet are made from on one of its infrastructures."""

    infrastructure: Infrastructure
    site: Site
    boot: Output[str]


class ComputeFleet(pulumi.ComponentResource):
    """A fleet: its slots, and for each of its nodes a machine, and the membership that depends on both."""

    #: A hostlist of those that should be there. Known in previews, and when some of them could not be made.
    nodes: Output[str]

    def __init__(self, name: str, args: ComputeFleetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register it.

        Raises:
            pulumi.RunError: a node is none of the fleet's, or can be nowhere; says which are, and the remedy.
        """
        super().__init__("tidepool:components:ComputeFleet", name, None, opts)
        fleet, controller, mine = args.fleet, args.controller, pulumi.ResourceOptions(parent=self)
        nodes = _chosen(fleet, args.nodes)
        places = _placed(fleet, nodes, args.places)
        grounds = {entry.key: self._ground(fleet, entry, args) for entry in fleet.infrastructures}
        # Nodes above max_nodes are there until somebody drains them; Slurm must not forget them.
        all_slots = sorted({*fleet.slots(), *nodes}, key=lambda slot: slot.number)
        slots = told_slots(fleet, all_slots, controller, controller.slot_state, self)
        # A machine boots when its slot is there: a slurmd that registers before makes a node of its own, which no
        # slot comes to be. Other slots are other nodes, and slurmd has told its shape at its start.
        beside = pulumi.ResourceOptions(parent=self, depends_on=[slots], replace_with=[slots])
        for slot in nodes:
            if args.only is not None and slot.node_name not in args.only:
                continue
            ground = grounds[places[slot.node_name]]
            site = ground.site
            order = MachineOrder(
                slot.node_name, site.network, slot.address, fleet.shape, site.image, ground.boot
            )
            resources.Node(
                slot.node_name,
                controller=controller.connection,
                node=slot.node_name,
                machine=ground.infrastructure.machine(order, beside).connection,
                slots=slots.id,
                opts=mine,
            )
        self.nodes = Output.from_input(hostlist.fold(slot.node_name for slot in nodes))
        self.register_outputs({"nodes": self.nodes})

    def _ground(self, fleet: Fleet, entry: FleetEntry, args: ComputeFleetArgs) -> _Ground:
        """What the fleet has on one of its infrastructures, whether there are nodes of it or not."""
        site, controller, mine = args.sites[entry.key], args.controller, pulumi.ResourceOptions(parent=self)
        infrastructure = site.infrastructure.for_fleet(fleet.only_on(entry))
        if isinstance(infrastructure, Prepared):
            infrastructure.prepare(site.image, mine)
        boot = infrastructure.boot(
            fleet.boot_name(entry),
            node_boot(
                controller.keys,
                home=controller.home if site.home is None else site.home,
                controllers=controller.hosts,
                shape=fleet.shape,
                is_named=controller.names_slots,
            ),
            mine,
        )
        return _Ground(infrastructure, site, boot)


def _placed(fleet: Fleet, nodes: Iterable[Slot], known: Mapping[str, str]) -> Mapping[str, str]:
    try:
        return node_places(fleet, [slot.node_name for slot in nodes], known)
    except ValueError as error:
        raise pulumi.RunError(str(error)) from error


def _chosen(fleet: Fleet, nodes: str | Iterable[str]) -> tuple[Slot, ...]:
    try:
        return slots_of(fleet, HostSet(nodes) if isinstance(nodes, str) else HostSet.from_names(nodes))
    except ValueError as error:
        # A program that names wrong nodes ends with these words, and without a traceback.
        raise pulumi.RunError(str(error)) from error
