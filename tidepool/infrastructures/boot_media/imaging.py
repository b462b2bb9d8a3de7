"""A machine that is made anew from the image of a role: its host boots another ISO.

A root in memory holds nothing while the host is off. So one that is off has no role, and a conversion is what switches it on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tidepool.cluster.failures import Permanent, Transient
from tidepool.cluster.roles import Role
from tidepool.images.errors import ImageError
from tidepool.images.iso import seed_at
from tidepool.infrastructures.boot_media.media import Kept, Medium
from tidepool.infrastructures.boot_media.silence import silence


class Power(Protocol):
    """The power of the machine's host. Both raise `InfrastructureError`, also where the host is the machine no more."""

    def is_off(self) -> bool:
        """Return whether it is off, and nobody is about to switch it on."""
        ...

    def boot(self, medium: Medium) -> None:
        """Switch it off, and on again with that medium; returns when nothing of before runs."""
        ...


@dataclass(frozen=True, slots=True)
class MediumImaging:
    """`tidepool.infrastructures.imaging.Imaging` of the machine at ``address``. ``images`` are ISOs, by role.

    What it boots is in ``kept`` as that of ``host``.
    """

    kept: Kept
    host: str
    address: str
    images: Mapping[Role, str]
    power: Power
    silence: Callable[[str], str] = silence

    def imaged(self) -> frozenset[Role]:
        if self.is_blank():
            return frozenset()
        medium = self.kept.read(self.host)
        # Of one that was booted from elsewhere no more is known than that it has the image, where there is but one.
        now = medium.image if medium else self._only_image
        return frozenset(role for role, image in self.images.items() if image == now)

    def is_blank(self) -> bool:
        # One that answers is on, whatever its BMC says, or does not say.
        return bool(self.silence(self.address)) and self.power.is_off()

    def image(self, role: Role) -> None:
        if (medium := self.kept.read(self.host)) is None:
            raise Transient(
                f"what the host {self.host} boots is not known on this machine: do it where the machine was made, or run `tidepool up "
                "--refresh` here first"
            )
        image = self.images[role]
        try:
            seed_at(Path(image))
        except (ImageError, OSError) as error:
            raise Permanent(f"{image} is nothing to boot from: {error}") from error
        self.power.boot(replace(medium, image=image))

    @property
    def _only_image(self) -> str:
        found = {*self.images.values()}
        return found.pop() if len(found) == 1 else ""
