"""What of AWS is asked and done by ourselves; all else there is of the package pulumi-aws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input


class AwsRegion(pulumi.CustomResource):
    """A region that has all that is asked of it: it is asked in previews, and all that it lacks is told at once.

    ``path`` is where a person wrote of it, ``demands`` are maps as `tidepool.infrastructures.aws.demand.Demand` has them, in camelCase. ``vpc``
    and ``subnets``, by zone, are those that are given. With ``counted`` each of them needs a price. ``architecture`` is what
    images are made for. Nothing is made there; whatever is depends on this.
    """

    def __init__(
        self,
        resource_name: str,
        *,
        region: Input[str],
        path: Input[str],
        network: Input[str],
        demands: Input[Sequence[Mapping[str, Any]]],
        vpc: Input[str] | None = None,
        subnets: Input[Mapping[str, Input[str]]] | None = None,
        counted: Input[bool] | None = None,
        architecture: Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "region": region,
            "path": path,
            "network": network,
            "demands": demands,
            "vpc": vpc,
            "subnets": subnets,
            "counted": counted,
            "architecture": architecture,
        }
        super().__init__("tidepool:aws:Region", resource_name, inputs, opts)


class AwsForwarding(pulumi.CustomResource):
    """A network interface that takes, and sends, what is not to or from its own address: EC2 does not check it.

    ``interface`` is its id. Of a machine with one interface its instance can say so; of one with several, nobody else can.
    """

    def __init__(
        self,
        resource_name: str,
        *,
        region: Input[str],
        interface: Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {"region": region, "interface": interface}
        super().__init__("tidepool:aws:Forwarding", resource_name, inputs, opts)
