"""The check of an infrastructure before anything is made there."""

from __future__ import annotations

from typing import Any, Final

import pulumi

from tidepool.resources.model import Field, Model, Resource, given, to_wire

#: Types that stacks of earlier releases have in its place; by the infrastructure's name.
RETIRED: Final = {
    "libvirt": "tidepool:libvirt:Host",
    "aws": "tidepool:aws:Region",
    "nomad": "tidepool:nomad:Cluster",
    "ssh": "tidepool:ssh:Inventory",
    "kubernetes": "tidepool:kubernetes:Place",
}


class PreflightModel(Model):
    """Properties of a `Preflight`. One of a retired type has none of them in the state."""

    infrastructure: Field[str] = given(default="")
    path: Field[str] = given(default="")
    demands: Field[Any] = given(default=None)


class Preflight(Resource, PreflightModel, token="tidepool:infrastructure:Preflight"):
    """An infrastructure that can give all that is asked of it: it is asked in previews, and all that it lacks is told at once.

    ``path`` is where the infrastructure stands in the spec, ``demands`` the dataclass that its check takes. Nothing is made;
    whatever is made there depends on this.
    """


def preflight(name: str, infrastructure: str, path: str, demands: Any) -> Preflight:
    """Register the check of an infrastructure; it takes the place of a resource of the retired type."""
    aliases = [pulumi.Alias(type_=RETIRED[infrastructure])] if infrastructure in RETIRED else []
    return Preflight(
        name,
        infrastructure=infrastructure,
        path=path,
        demands=to_wire(demands),
        opts=pulumi.ResourceOptions(aliases=aliases),
    )
