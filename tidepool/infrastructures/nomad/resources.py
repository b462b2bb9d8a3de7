"""Hosts that run Nomad. The jobs on them are of the package pulumi-nomad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input, Output


class NomadCluster(pulumi.CustomResource):
    """A Nomad that has all that is asked of it, and a token with all rights: asked in previews, told all at once.

    ``api`` says how it is reached: ``address``, ``region``, ``tokenFile``, ``caFile``. ``demands`` are maps as
    `tidepool.infrastructures.nomad.demand.Demand` has them, in camelCase. Nothing is made; whatever is made there depends on this.
    """

    def __init__(
        self,
        resource_name: str,
        *,
        api: Input[Mapping[str, str]],
        namespace: Input[str],
        stack: Input[str],
        demands: Input[Sequence[Mapping[str, Any]]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {"api": api, "namespace": namespace, "stack": stack, "demands": demands}
        super().__init__("tidepool:nomad:Cluster", resource_name, inputs, opts)


class NomadMachine(pulumi.CustomResource):
    """A host that is a machine: it has the machine's name, fleet and address in its metadata, and ``jobs`` run on it.

    The host is any free one that is as ``constraints`` (``${meta.rack} = r1``) want it, and stays the machine's until
    that is deleted. ``host`` is its name.
    """

    host: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        api: Input[Mapping[str, str]],
        namespace: Input[str],
        stack: Input[str],
        machine: Input[str],
        fleet: Input[str],
        address: Input[str],
        constraints: Input[Sequence[str]],
        drivers: Input[Sequence[str]],
        datacenters: Input[Sequence[str]],
        node_pool: Input[str],
        jobs: Input[Sequence[str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "api": api,
            "namespace": namespace,
            "stack": stack,
            "machine": machine,
            "fleet": fleet,
            "address": address,
            "constraints": constraints,
            "drivers": drivers,
            "datacenters": datacenters,
            "nodePool": node_pool,
            "jobs": jobs,
            "host": None,
        }
        super().__init__("tidepool:nomad:Machine", resource_name, inputs, opts)
