"""Networks, volumes, boots and machines of this machine (`tidepool.infrastructures.local.kernel`).

``stack`` is the name under which `tidepool.infrastructures.local.kernel` keeps them: that of the Pulumi stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi import Input

from tidepool.cluster.boot import Device, File, Folder, Mount, Service
from tidepool.cluster.flows import Flow, Forward, Peer
from tidepool.resources.model import Field, Model, Resource, condition, given, output


class NetworkModel(Model):
    """Properties of a `Network`."""

    stack: Field[str] = given(replaces=True)
    network: Field[str] = given(replaces=True)
    cidr: Field[str] = given(replaces=True)
    egress: Field[Sequence[Flow]] = given(default=())
    ingress: Field[Sequence[Forward]] = given(default=())
    #: Networks of other stacks, and what passes between each and this one, where both say so.
    peers: Field[Sequence[Peer]] = given(default=())
    #: How its switch is, and the rules of its uplink.
    state: Field[str] = condition("up")


class Network(Resource, NetworkModel, token="tidepool:local:Network"):
    """A switch that machines of the stack, and nothing else, are plugged into.

    ``network`` is its name in the stack, ``cidr`` its range; another one of either replaces it. ``egress`` is what machines
    may reach outside, ``ingress`` the ports of this machine that lead to them; a change of them touches no machine.
    """


class VolumeModel(Model):
    """Properties of a `Volume`."""

    stack: Field[str] = given(replaces=True)
    volume: Field[str] = given(replaces=True)
    retain: Field[bool] = given(default=False, stored=True)
    #: Absolute, on this machine.
    path: Field[str] = output()


class Volume(Resource, VolumeModel, token="tidepool:local:Volume"):
    """A folder of the stack's that machines mount: /home, slurmctld's state.

    With ``retain`` its content outlives the resource, and the next volume of that name has it. It is root's at first;
    the boot of a machine that mounts it gives it another owner.
    """


class BootModel(Model):
    """Properties of a `Boot`."""

    stack: Field[str] = given(replaces=True)
    boot: Field[str] = given(replaces=True)
    services: Field[Sequence[Service]] = given()
    #: A map by their paths; may be secret.
    files: Field[Sequence[File[str]], Sequence[File[Input[str]]]] = given(default=(), keyed_by="path")
    folders: Field[Sequence[Folder]] = given(default=())
    mounts: Field[Sequence[Mount[str]], Sequence[Mount[Input[str]]]] = given(default=())
    capabilities: Field[Sequence[str]] = given(default=())
    devices: Field[Sequence[Device]] = given(default=())
    containers: Field[str] = given(default="")


class Boot(Resource, BootModel, token="tidepool:local:Boot"):
    """The boot of machines of one kind: written once, so that each machine only names it.

    All is as in `tidepool.cluster.boot`. It is kept in the data folder, for root alone. A change is for the boots to come;
    machines that run go on as they are.
    """


class MachineModel(Model):
    """Properties of a `Machine`."""

    stack: Field[str] = given(replaces=True)
    machine: Field[str] = given(replaces=True)
    network: Field[str] = given(replaces=True)
    address: Field[str] = given(replaces=True)
    mac: Field[str] = given(replaces=True)
    image: Field[str] = given(replaces=True)
    boot: Field[str] = given()
    cpus: Field[float] = given(least=0.01)
    memory_mib: Field[int] = given(least=4)
    aliases: Field[Sequence[str]] = given(default=())
    wait_ready: Field[bool] = given(default=False)
    #: How its processes are.
    state: Field[str] = condition("running")
    #: How it is reached: ``{"kind": "local", "stack": ..., "machine": ...}`` (`tidepool.infrastructures.connection`). Known in previews.
    connection: Field[Mapping[str, Any]] = output(default={})


class Machine(Resource, MachineModel, token="tidepool:local:Machine"):
    """A machine: namespaces over the root of an image, with limits.

    ``machine`` is its name and host name, ``image`` an image's digest, ``boot`` the name of a `Boot`. ``cpus`` and
    ``memoryMib`` change while it runs, ``boot`` at the next boot; all else replaces it, the old one deleted first.
    With ``waitReady`` it is made when all its services are ready, and not when it boots.
    """
