"""All infrastructures of a cluster with what it has on each: what the program registers before any machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pulumi import Output

from tidepool.cluster.spec import ClusterSpec, Fleet
from tidepool.components.golden_image import GoldenImage
from tidepool.infrastructures.context import Site
from tidepool.infrastructures.contract import Infrastructure, VolumeOrder
from tidepool.infrastructures.registry import infrastructures_of


@dataclass(frozen=True, slots=True)
class _Ground:
    """What the cluster has on one infrastructure; ``images`` by their names."""

    infrastructure: Infrastructure
    network: Output[str]
    images: Mapping[str, Output[str]]
    home: Output[str] | None


@dataclass(frozen=True, slots=True)
class Sites:
    """What `sites_of` registered."""

    spec: ClusterSpec
    #: By the infrastructure's name, the controller's first.
    grounds: Mapping[str, _Ground]

    @property
    def own(self) -> Site:
        """Of the cluster's own machines."""
        return self._site(self.spec.controller.infrastructure.name, self.spec.controller_image)

    @property
    def images(self) -> Mapping[str, Output[str]]:
        """By name, the images where the cluster's own machines and those of pools are."""
        return self.grounds[self.spec.controller.infrastructure.name].images

    def of_fleet(self, fleet: Fleet) -> Mapping[str, Site]:
        """By key, one for each of the fleet's infrastructures."""
        return {
            entry.key: self._site(entry.name, self.spec.fleet_image(fleet, entry))
            for entry in fleet.infrastructures
        }

    def _site(self, name: str, image: str) -> Site:
        ground = self.grounds[name]
        return Site(ground.infrastructure, ground.network, ground.images[image], ground.home)


def sites_of(spec: ClusterSpec, stack: str, folder: Path) -> Sites:
    """Register networks and images of all infrastructures; recipes and playbooks are those of the project's ``folder``.

    Raises:
        pulumi.RunError: an infrastructure is not there, or its options have mistakes.
    """
    infrastructures = infrastructures_of(spec, stack)
    networks = {name: each.network("net", spec.network) for name, each in infrastructures.items()}
    digests = {image: _digest(spec, image, folder, infrastructures) for image in spec.images}
    return Sites(
        spec,
        {
            name: _Ground(
                each,
                networks[name],
                {image: each.image(image, digests[image]) for image in spec.images_on(name)},
                None
                if name == spec.controller.infrastructure.name
                else each.volume(VolumeOrder("home", retain=True)),
            )
            for name, each in infrastructures.items()
        },
    )


def _digest(
    spec: ClusterSpec, image: str, folder: Path, infrastructures: Mapping[str, Infrastructure]
) -> Output[str]:
    """Of an image, once, in all the forms that are made of it."""
    forms = [
        form for name, each in infrastructures.items() if image in spec.images_on(name) for form in each.forms
    ]
    golden = GoldenImage(
        image,
        recipe=folder / "images" / image,
        playbooks=folder / "playbooks",
        needs=spec.roles_of(image),
        forms=tuple(dict.fromkeys(forms)),
    )
    return golden.digest
