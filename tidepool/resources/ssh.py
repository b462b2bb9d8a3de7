"""Machines that are reached by SSH, whoever made them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import Input, Output


class SshAccess(pulumi.CustomResource):
    """The key by which a stack's machines are reached, and theirs: kept in the data folder for root alone.

    ``private_key`` is secret; ``host_key`` is the public key that all of ``addresses`` (a hostlist) show, and no other is
    taken from them.
    """

    def __init__(
        self,
        resource_name: str,
        *,
        stack: Input[str],
        private_key: Input[str],
        host_key: Input[str],
        addresses: Input[str],
        port: Input[int] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "stack": stack,
            "privateKey": private_key,
            "hostKey": host_key,
            "addresses": addresses,
            "port": port,
        }
        super().__init__("tidepool:ssh:Access", resource_name, inputs, opts)


class SshMachine(pulumi.CustomResource):
    """A machine that answers by SSH: creating it waits for that.

    ``machine`` is what made it knows it by: another one is another machine at the same address. ``access`` is the id of
    the `SshAccess`.
    """

    connection: Output[Mapping[str, Any]]

    def __init__(
        self,
        resource_name: str,
        *,
        machine: Input[str],
        stack: Input[str],
        address: Input[str],
        user: Input[str],
        access: Input[str],
        port: Input[int] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "machine": machine,
            "stack": stack,
            "address": address,
            "user": user,
            "access": access,
            "port": port,
            "connection": None,
        }
        super().__init__("tidepool:ssh:Machine", resource_name, inputs, opts)
