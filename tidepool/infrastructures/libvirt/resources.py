"""Resources of libvirt that are made by ourselves; all else there is of the package pulumi-libvirt."""

from __future__ import annotations

from tidepool.resources.model import Field, Model, Resource, condition, given


class NetworkFilterModel(Model):
    """Properties of a `NetworkFilter`."""

    uri: Field[str] = given(replaces=True)
    filter: Field[str] = given(replaces=True)
    definition: Field[str] = given()
    #: What libvirt has of it.
    state: Field[str] = condition("defined")


class NetworkFilter(Resource, NetworkFilterModel, token="tidepool:libvirt:NetworkFilter"):
    """A network filter of libvirt, on the host of ``uri``: ``filter`` is its name, ``definition`` its XML.

    Another definition holds at once for machines that run. The package pulumi-libvirt has no such resource.
    """
