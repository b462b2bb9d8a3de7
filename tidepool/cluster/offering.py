"""Offerings: machines by a name that fleets say, with their shape, their price, and what they are on each infrastructure."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, field_validator

from tidepool.cluster.fleet import MachineSource, OfferingName
from tidepool.cluster.part import Features, ImageName, Part, Whole, read_name
from tidepool.cluster.shape import Shape, mebibytes

#: Infrastructures that make the disk of a machine: their options have a `disk`.
MAKING_DISKS: Final = frozenset({"aws", "cloudstack", "libvirt"})

_UNSET: Final = (None, ())


class OfferedMachines(MachineSource):
    """An infrastructure that has an offering, and what it is there."""

    image: ImageName | None = Field(default=None, description="Another image than the fleet's.")
    price_usd_per_hour: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="What one machine costs here, in US dollars an hour; by default the offering's.",
    )

    def extended(self, base: OfferedMachines | None) -> OfferedMachines:
        """Return it with what ``base`` says besides: options one by one."""
        if base is None:
            return self
        found: dict[str, Any] = {"options": {**base.options, **self.options}}
        for key in ("image", "price_usd_per_hour"):
            found[key] = getattr(base, key) if getattr(self, key) is None else getattr(self, key)
        return OfferedMachines(name=self.name, **found)


class Offering(Part):
    """Machines of one kind, by a name that fleets, pools and the controller say instead of shape and options."""

    name: OfferingName = Field(description="What `offering` of a fleet says: `large`, `spot`.")
    extends: OfferingName | None = Field(
        default=None,
        description="Another offering, from which it has what it does not say itself. Of an infrastructure that both name it has the options of both, its own first.",
    )
    shape: Shape | None = Field(
        default=None,
        description="What each machine has, as a fleet's; needed unless it extends one that says it.",
    )
    disk_mib: Annotated[Whole, BeforeValidator(mebibytes)] | None = Field(
        default=None,
        validation_alias="disk",
        ge=1,
        description="How large the disk is, of machines whose disk is made: those of "
        + ", ".join(sorted(MAKING_DISKS))
        + ".",
    )
    price_usd_per_hour: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="What one machine costs, in US dollars an hour, where its infrastructure says nothing else.",
    )
    features: Features = Field(
        default=(),
        description="Words that jobs can ask for. A fleet has those that all of its offerings have, beside its own.",
    )
    infrastructures: tuple[Annotated[OfferedMachines, BeforeValidator(read_name)], ...] = Field(
        default=(),
        description="Where there are such machines, in order of preference: names, or more details as below.",
    )

    @field_validator("infrastructures")
    @classmethod
    def _each_once(cls, entries: tuple[OfferedMachines, ...]) -> tuple[OfferedMachines, ...]:
        names = [entry.name for entry in entries]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"{', '.join(twice)} stands here twice; write another offering, that extends this one"
            )
        return entries

    def on(self, infrastructure: str) -> OfferedMachines | None:
        """Return what it is there; None where there is none of it."""
        return next((each for each in self.infrastructures if each.name == infrastructure), None)

    def extended(self, base: Offering) -> Offering:
        """Return it with what ``base`` says besides. It is on the infrastructures that it names, else on those of ``base``."""
        own = {key: value for key, value in self if value not in _UNSET}
        inherited = {key: value for key, value in base if key not in ("name", "extends")}
        here = tuple(each.extended(base.on(each.name)) for each in self.infrastructures)
        return Offering.model_construct(
            **{**inherited, **own, "infrastructures": here or base.infrastructures}
        )

    def entry(self, infrastructure: str) -> dict[str, Any]:
        """Return the keys that a fleet's entry has from it, on an infrastructure where it is."""
        there = self.on(infrastructure)
        assert there is not None
        makes_disk = self.disk_mib is not None and infrastructure in MAKING_DISKS
        disk = {"disk": self.disk_mib} if makes_disk else {}
        price = self.price_usd_per_hour if there.price_usd_per_hour is None else there.price_usd_per_hour
        said = {"options": {**disk, **there.options}, "image": there.image, "price_usd_per_hour": price}
        return {key: value for key, value in said.items() if value is not None}
