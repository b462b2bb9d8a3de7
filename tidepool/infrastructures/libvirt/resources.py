"""Hosts that run libvirt. What is made on them is of the package pulumi-libvirt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input


class LibvirtHost(pulumi.CustomResource):
    """A host that has all that is asked of it: it is asked in previews, and all that it lacks is told at once.

    ``demands`` are maps as `tidepool.infrastructures.libvirt.Demand` has them, in camelCase, processors as text (``2-5``). Nothing is made
    on the host; whatever is depends on this.
    """

    def __init__(
        self,
        resource_name: str,
        *,
        uri: Input[str],
        demands: Input[Sequence[Mapping[str, Any]]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("tidepool:libvirt:Host", resource_name, {"uri": uri, "demands": demands}, opts)
