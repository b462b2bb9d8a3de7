"""What each infrastructure needs beyond this package: by pip its resources, and a plugin of the same name and version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Package:
    """A package of Pulumi, as pip calls it, in the version that is tested; and others that are needed ``beside`` it."""

    name: str
    version: str
    beside: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """For pip: ``pulumi-aws==7.51.1``."""
        return f"{self.name}=={self.version}"

    @property
    def plugin(self) -> str:
        """What Pulumi calls the plugin that makes its resources: ``aws``."""
        return self.name.removeprefix("pulumi-")

    @property
    def install(self) -> str:
        """The command that installs it all."""
        return " ".join([".venv/bin/pip install", self.requirement, *self.beside])


#: By the names that specs have. Those that need none are not in it.
PACKAGES: Final[Mapping[str, Package]] = {
    "libvirt": Package("pulumi-libvirt", "0.5.4"),
    "aws": Package("pulumi-aws", "7.51.1", ("boto3",)),
    "kubernetes": Package("pulumi-kubernetes", "4.34.2"),
    "nomad": Package("pulumi-nomad", "2.6.1"),
}
