"""What Slurm is told: its configuration, the slots of its fleets, and the nodes that are in service.

``controller`` is the connection of slurmctld's machine, as `tidepool.infrastructures.connection` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pulumi
from pulumi import Input, Output


class Configuration(pulumi.CustomResource):
    """Slurm's files in /etc/slurm of ``hosts`` (connections; the first is slurmctld's), and slurmctld running by them.

    ``files`` are texts by name. A change is a reconfigure, and a restart of slurmctld only for keys that it reads
    at its start alone; jobs go on either way. Refused, in previews already: a change by which a partition or a
    fleet goes whose nodes run jobs (``fleets``: hostlists of all slots, by fleet). What Slurm itself refuses is
    put back.
    """

    #: Tells these files from all others; nodes and slots depend on it.
    digest: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        hosts: Input[Sequence[Input[Mapping[str, Any]]]],
        files: Input[Mapping[str, str]],
        fleets: Input[Mapping[str, str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {"hosts": hosts, "files": files, "fleets": fleets, "digest": None}
        super().__init__("tidepool:slurm:Configuration", resource_name, inputs, opts)


class Slots(pulumi.CustomResource):
    """The slots of a fleet: nodes in state FUTURE, until machines boot under their names. Of Slurm's power saving: CLOUD.

    ``names`` and ``addresses`` are hostlists. More of them, and other features, are told to Slurm while jobs run;
    fewer takes away those that are FUTURE and leaves nodes that are up. Another shape replaces all of them, and so
    the fleet's nodes, which must be without jobs.
    """

    names: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        controller: Input[Mapping[str, Any]],
        names: Input[str],
        addresses: Input[str],
        cpus: Input[int],
        sockets: Input[int],
        cores_per_socket: Input[int],
        threads_per_core: Input[int],
        memory_mib: Input[int],
        features: Input[Sequence[str]],
        gres: Input[str] = "",
        state: Literal["FUTURE", "CLOUD"] = "FUTURE",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "controller": controller,
            "names": names,
            "addresses": addresses,
            "cpus": cpus,
            "sockets": sockets,
            "coresPerSocket": cores_per_socket,
            "threadsPerCore": threads_per_core,
            "memoryMib": memory_mib,
            "features": features,
            "gres": gres,
            # Slots that were made before there was a choice are not made again.
            **({"state": state} if state != "FUTURE" else {}),
        }
        super().__init__("tidepool:slurm:Slots", resource_name, inputs, opts)


class Node(pulumi.CustomResource):
    """A machine's membership in the cluster: it is there while Slurm has the node, and the node is up.

    Creating it waits until Slurm says so, or fails with what slurmd or the boot log said. Deleting it drains the
    node, and fails with the ids of its jobs where it has some: then the node goes on as before. Else the node's
    place is a slot again. It depends on its machine, so the machine is deleted after it.
    """

    #: NodeName.
    node: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        controller: Input[Mapping[str, Any]],
        node: Input[str],
        machine: Input[Mapping[str, Any]],
        slots: Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """``machine`` is the connection of its machine, ``slots`` the id of its fleet's `Slots`."""
        inputs = {"controller": controller, "node": node, "machine": machine, "slots": slots}
        super().__init__("tidepool:slurm:Node", resource_name, inputs, opts)
