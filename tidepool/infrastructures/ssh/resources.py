"""Hosts that are there already: whether they are fit, whose each is, and what playbooks make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input, Output


class SshInventory(pulumi.CustomResource):
    """Hosts that are fit to be nodes: they are asked in previews, and all that is wrong with all of them is told at once.

    ``hosts`` are maps with path, host, cpus, memoryMib (`tidepool.infrastructures.ssh.Demand`) and connection; ``users`` have name,
    uid, gid. Nothing is done on a host; whatever is depends on this.
    """

    def __init__(
        self,
        resource_name: str,
        *,
        stack: Input[str],
        systems: Input[Sequence[str]],
        users: Input[Sequence[Mapping[str, Any]]],
        hosts: Input[Sequence[Mapping[str, Any]]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {"stack": stack, "systems": systems, "users": users, "hosts": hosts}
        super().__init__("tidepool:ssh:Inventory", resource_name, inputs, opts)


class SshHost(pulumi.CustomResource):
    """A host that is the node ``node`` of a stack, and of no other; deleting it gives the host back as it was before.

    ``host`` is its name in the inventory, ``address`` its node's in the cluster, ``connection`` how it is reached.
    """

    connection: Output[Mapping[str, Any]]
    #: What tells this claim from others; playbooks of it are undone with it.
    claim: Output[Mapping[str, Any]]
    #: The machine's id: another one when the host was given back in between.
    machine: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        stack: Input[str],
        node: Input[str],
        host: Input[str],
        connection: Input[Mapping[str, Any]],
        address: Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "stack": stack,
            "node": node,
            "host": host,
            "address": address,
            "connection": connection,
            "claim": None,
            "machine": None,
        }
        super().__init__("tidepool:ssh:Host", resource_name, inputs, opts)


class SshPlaybook(pulumi.CustomResource):
    """Roles of the folder ``playbooks`` on the host of a connection: applied when they, or what they are told, change.

    ``variables`` are kept in the clear, ``secrets`` (the same) encrypted; neither is in a command's arguments, and what is
    secret is left out of what a failed play says. ``boot`` names a boot of ``stack``, which the role `services` is told.
    With ``claim``, a `SshHost`'s, all that it changes is undone when that host is given back; without, it stays.
    """

    #: As it was given: what takes it from here comes after the play.
    connection: Output[Mapping[str, Any]]

    def __init__(
        self,
        resource_name: str,
        *,
        playbooks: Input[str],
        roles: Input[Sequence[str]],
        connection: Input[Mapping[str, Any]],
        variables: Input[Mapping[str, Any]] | None = None,
        secrets: Input[Mapping[str, Any]] | None = None,
        stack: Input[str] | None = None,
        boot: Input[str] | None = None,
        claim: Input[Mapping[str, Any]] | None = None,
        host: Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "playbooks": playbooks,
            "roles": roles,
            "connection": connection,
            "variables": variables,
            "secrets": None if secrets is None else Output.secret(secrets),
            "stack": stack,
            "boot": boot,
            "claim": claim,
            "host": host,
            "digest": None,
        }
        super().__init__("tidepool:ssh:Playbook", resource_name, inputs, opts)
