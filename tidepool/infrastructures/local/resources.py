"""Networks and machines of this machine (`tidepool.infrastructures.local.kernel`).

``stack`` is the name under which `tidepool.infrastructures.local.kernel` keeps them: that of the Pulumi stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input, Output


class Network(pulumi.CustomResource):
    """A switch that machines of the stack, and nothing else, are plugged into.

    ``network`` is its name in the stack, ``cidr`` its range; another one of either replaces it.
    """

    network: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        stack: Input[str],
        network: Input[str],
        cidr: Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {"stack": stack, "network": network, "cidr": cidr}
        super().__init__("tidepool:local:Network", resource_name, inputs, opts)


class Volume(pulumi.CustomResource):
    """A folder of the stack's that machines mount: /home, slurmctld's state.

    With ``retain`` its content outlives the resource, and the next volume of that name has it. It is root's at first;
    the boot of a machine that mounts it gives it another owner.
    """

    volume: Output[str]
    #: Absolute, on this machine.
    path: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        stack: Input[str],
        volume: Input[str],
        retain: Input[bool] = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "stack": stack,
            "volume": volume,
            "retain": retain,
            "path": None,
        }
        super().__init__("tidepool:local:Volume", resource_name, inputs, opts)


class Boot(pulumi.CustomResource):
    """What machines of one kind do when they boot: written once, so that each machine only names it.

    ``services``, ``folders``, ``mounts``, ``capabilities``, ``devices`` and ``containers`` are as in `tidepool.infrastructures.local.kernel`
    (camelCase keys);
    ``files`` are ``{path: {content, mode, owner, group, isBase64}}``, and may be secret. It is kept in the data
    folder, for root alone. A change is for the boots to come; machines that run go on as they are.
    """

    boot: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        stack: Input[str],
        boot: Input[str],
        services: Input[Sequence[Mapping[str, Any]]],
        files: Input[Mapping[str, Any]] | None = None,
        folders: Input[Sequence[Mapping[str, Any]]] | None = None,
        mounts: Input[Sequence[Mapping[str, Any]]] | None = None,
        capabilities: Input[Sequence[str]] | None = None,
        devices: Input[Sequence[Mapping[str, Any]]] | None = None,
        containers: Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "stack": stack,
            "boot": boot,
            "services": services,
            "files": files,
            "folders": folders,
            "mounts": mounts,
            "capabilities": capabilities,
            "devices": devices,
            "containers": containers,
        }
        super().__init__("tidepool:local:Boot", resource_name, inputs, opts)


class Machine(pulumi.CustomResource):
    """A machine: namespaces over the root of an image, with limits.

    ``machine`` is its name and host name, ``image`` an image's digest, ``boot`` the name of a `Boot`. ``cpus`` and
    ``memoryMib`` change while it runs, ``boot`` at the next boot; all else replaces it, the old one deleted first.
    With ``waitReady`` it is made when all its services are ready, and not when it boots.
    """

    machine: Output[str]
    address: Output[str]
    #: How it is reached: ``{"kind": "local", "stack": ..., "machine": ...}`` (`tidepool.infrastructures.connection`). Known in previews.
    connection: Output[Mapping[str, Any]]

    def __init__(
        self,
        resource_name: str,
        *,
        stack: Input[str],
        machine: Input[str],
        network: Input[str],
        address: Input[str],
        mac: Input[str],
        image: Input[str],
        boot: Input[str],
        cpus: Input[float],
        memory_mib: Input[int],
        aliases: Input[Sequence[str]] | None = None,
        wait_ready: Input[bool] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "stack": stack,
            "machine": machine,
            "network": network,
            "address": address,
            "mac": mac,
            "image": image,
            "boot": boot,
            "cpus": cpus,
            "memoryMib": memory_mib,
            "aliases": aliases,
            "waitReady": wait_ready,
            "connection": None,
        }
        super().__init__("tidepool:local:Machine", resource_name, inputs, opts)
