"""The slots that Slurm is told of for a fleet, or for a pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pulumi

from tidepool import resources
from tidepool.cluster import hostlist
from tidepool.cluster.slots import Slot
from tidepool.cluster.slurm_conf import Fleetlike
from tidepool.components.slurm_controller import SlurmController


def told_slots(
    fleet: Fleetlike,
    slots: Sequence[Slot],
    controller: SlurmController,
    state: Literal["FUTURE", "CLOUD"],
    parent: pulumi.Resource,
) -> resources.Slots:
    """Register ``slots`` of ``fleet``, in the order of their numbers, below ``parent``."""
    shape = fleet.shape
    sockets, cores_per_socket, threads_per_core = shape.layout
    return resources.Slots(
        fleet.name,
        controller=controller.connection,
        names=hostlist.fold(slot.node_name for slot in slots),
        addresses=hostlist.fold(str(slot.address) for slot in slots),
        cpus=shape.cpus,
        sockets=sockets,
        cores_per_socket=cores_per_socket,
        threads_per_core=threads_per_core,
        memory_mib=shape.memory_mib,
        # Node sets find a fleet's nodes by its name.
        features=[fleet.name, *fleet.features],
        gres=",".join(map(str, shape.gres)),
        state=state,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[controller.configuration]),
    )
