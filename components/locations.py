"""All infrastructures of a cluster with what it has on each: what a program registers before any machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

import pulumi
from pulumi import Output
from pulumi.runtime.settings import get_root_resource, set_root_resource

from tidepool.cluster.names import CLUSTER_NETWORK
from tidepool.cluster.spec import ClusterSpec
from tidepool.components.golden_image import GoldenImage
from tidepool.components.scratch import scratch_mounts
from tidepool.infrastructures.contract import Infrastructure, Mount, VolumeOrder
from tidepool.infrastructures.registry import infrastructures_of


class ClusterScope(pulumi.ComponentResource):
    """One of several clusters of a program: all of its resources are below it.

    A URN has the types of a resource's parents and not their names. So each scope has a type of its own, and two clusters
    may each have a machine ``ctl``.
    """

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"tidepool:components:Cluster.{name}", name, None, opts)
        self.register_outputs({})


@dataclass(frozen=True, slots=True)
class Location:
    """An infrastructure of a cluster, and what it gave for the cluster's network, its images by their names, ``/home`` and scratch.

    ``home`` and ``scratch`` are None on the controller's infrastructure, where they are the controller's own volumes.
    """

    infrastructure: Infrastructure
    network: pulumi.Input[str]
    images: Mapping[str, pulumi.Input[str]]
    home: Output[str] | None = None
    scratch: tuple[Mount, ...] | None = None


@dataclass(frozen=True, slots=True)
class Locations:
    """The infrastructures of a cluster, by name.

    ``stack`` is the name under which each of them keeps the cluster's machines: Pulumi's, and with a scope that one
    besides. ``scope`` is what all of the cluster's resources are below; None for the stack itself.
    """

    spec: ClusterSpec
    stack: str
    by_name: Mapping[str, Location]
    scope: ClusterScope | None = None

    @property
    def own(self) -> Location:
        """The location of the cluster's own machines."""
        return self.by_name[self.spec.controller.infrastructure.name]

    def options(self, opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions | None:
        """Return the options of a component of the cluster: below the scope, unless they say otherwise."""
        if self.scope is None:
            return opts
        return pulumi.ResourceOptions.merge(pulumi.ResourceOptions(parent=self.scope), opts)


def register_locations(spec: ClusterSpec, scope: str = "", folder: Path | None = None) -> Locations:
    """Register networks and images of all infrastructures of a cluster.

    Args:
        spec: the cluster's.
        scope: sets the cluster's resources apart from those of other clusters in the same program, of which one may have
            none.
        folder: where recipes (``images/``) and ``playbooks/`` are looked for before Tidepool's own are taken; by default
            the one that the program runs in.

    Raises:
        pulumi.RunError: an infrastructure is not there, its options have mistakes, or another cluster of the program has
            the same scope or some of the same addresses.
    """
    _refuse_collisions(spec, scope)
    stack = f"{pulumi.get_stack()}-{scope}" if scope else pulumi.get_stack()
    parent = ClusterScope(scope) if scope else None
    with _registered_below(parent):
        infrastructures = infrastructures_of(spec, stack)
        networks = {
            name: each.network(CLUSTER_NETWORK, spec.network) for name, each in infrastructures.items()
        }
        digests = {image: _digest(spec, image, folder, infrastructures) for image in spec.images}
        by_name = {}
        for name, each in infrastructures.items():
            images = {image: each.image(image, digests[image]) for image in spec.images_on(name)}
            is_own = name == spec.controller.infrastructure.name
            by_name[name] = Location(
                each,
                networks[name],
                images,
                None if is_own else each.volume(VolumeOrder("home", retain=True)),
                None if is_own else scratch_mounts(spec, partial(_volume, each)),
            )
    return Locations(spec, stack, by_name, parent)


def _volume(infrastructure: Infrastructure, name: str) -> Output[str]:
    return infrastructure.volume(VolumeOrder(name))


def _digest(
    spec: ClusterSpec, image: str, folder: Path | None, infrastructures: Mapping[str, Infrastructure]
) -> Output[str]:
    """Register an image once, in all the forms that infrastructures take it in."""
    forms = [
        form for name, each in infrastructures.items() if image in spec.images_on(name) for form in each.forms
    ]
    golden = GoldenImage(image, folder=folder, needs=spec.roles_of(image), forms=tuple(dict.fromkeys(forms)))
    return golden.digest


@contextmanager
def _registered_below(parent: pulumi.Resource | None) -> Iterator[None]:
    """Register resources that name no parent below ``parent``: infrastructures name none for what all machines share."""
    root = get_root_resource()
    if parent is None or root is None:
        yield
        return
    set_root_resource(parent)
    try:
        yield
    finally:
        set_root_resource(root)


#: By the stack's root resource, the clusters of the program by their scopes.
_CLUSTERS: WeakKeyDictionary[pulumi.Resource, dict[str, ClusterSpec]] = WeakKeyDictionary()


def _refuse_collisions(spec: ClusterSpec, scope: str) -> None:
    root = get_root_resource()
    if root is None:
        return
    clusters = _CLUSTERS.setdefault(root, {})
    if scope in clusters:
        named = f"the scope `{scope}`" if scope else "no scope"
        raise pulumi.RunError(
            f"cluster {spec.name}: {clusters[scope].name} has {named} already, and their resources would have the same "
            f'names; give this one a scope of its own: scope="{spec.name}"'
        )
    for other in clusters.values():
        if other.network.overlaps(spec.network):
            raise pulumi.RunError(
                f"cluster {spec.name}: its network {spec.network} overlaps that of {other.name}, {other.network}; give it "
                "another one"
            )
    clusters[scope] = spec
