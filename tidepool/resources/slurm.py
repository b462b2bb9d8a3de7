"""Resources of Slurm: its configuration, the slots of its fleets, and the nodes that are in service.

``controller`` is the connection of slurmctld's machine, as `tidepool.infrastructures.connection` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pulumi import Input

from tidepool.resources.model import Field, Model, Resource, condition, given, output


class ConfigurationModel(Model):
    """Properties of a `Configuration`."""

    # Another controller, or one that is made anew, has no files yet; nothing is taken away from the old one.
    hosts: Field[Sequence[Mapping[str, Any]], Sequence[Input[Mapping[str, Any]]]] = given(replaces=True)
    files: Field[Mapping[str, str]] = given()
    fleets: Field[Mapping[str, str]] = given(default={})
    #: Tells these files from all others; nodes and slots depend on it.
    digest: Field[str] = output()


class Configuration(Resource, ConfigurationModel, token="tidepool:slurm:Configuration"):
    """Slurm's files in /etc/slurm of ``hosts`` (connections; the first is slurmctld's), and slurmctld running by them.

    ``files`` are texts by name. A change is a reconfigure, and a restart of slurmctld only for keys that it reads
    at its start alone; jobs go on either way. Refused, in previews already: a change by which a partition or a
    fleet goes whose nodes run jobs (``fleets``: hostlists of all slots, by fleet). What Slurm itself refuses is
    put back.
    """


class SlotsModel(Model):
    """Properties of `Slots`."""

    controller: Field[Mapping[str, Any]] = given(replaces="known")
    names: Field[str] = given()
    addresses: Field[str] = given()
    cpus: Field[int] = given(replaces=True, least=1)
    sockets: Field[int] = given(replaces=True, least=1)
    cores_per_socket: Field[int] = given(replaces=True, least=1)
    threads_per_core: Field[int] = given(replaces=True, least=1)
    memory_mib: Field[int] = given(replaces=True, least=1)
    features: Field[Sequence[str]] = given()
    gres: Field[str] = given(default="", stored=True, replaces=True)
    state: Field[Literal["FUTURE", "CLOUD"]] = given(default="FUTURE", replaces=True)


class Slots(Resource, SlotsModel, token="tidepool:slurm:Slots"):
    """The slots of a fleet: nodes in state FUTURE, until machines boot under their names. Of Slurm's power saving: CLOUD.

    ``names`` and ``addresses`` are hostlists. More of them, and other features, are told to Slurm while jobs run;
    fewer takes away those that are FUTURE and leaves nodes that are up. Another shape replaces all of them, and so
    the fleet's nodes, which must be without jobs.
    """


class NodeModel(Model):
    """Properties of a `Node`. ``machine`` is the connection of its machine, ``slots`` the id of its fleet's `Slots`."""

    controller: Field[Mapping[str, Any]] = given(replaces="known")
    #: NodeName.
    node: Field[str] = given(replaces=True)
    machine: Field[Mapping[str, Any]] = given(replaces=True)
    slots: Field[str] = given(replaces=True)
    #: How Slurm has it.
    state: Field[str] = condition("up")


class Node(Resource, NodeModel, token="tidepool:slurm:Node"):
    """A machine's membership in the cluster: it is there while Slurm has the node, and the node is up.

    Creating it waits until Slurm says so, or fails with what slurmd or the boot log said. Deleting it drains the
    node, and fails with the ids of its jobs where it has some: then the node goes on as before. Else the node's
    place is a slot again. It depends on its machine, so the machine is deleted after it.
    """
