"""Options of bare metal: the hosts with their BMCs, of the whole cluster; of a fleet's machines, with each fleet's entry."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.names import by_name
from tidepool.cluster.part import Part, Whole
from tidepool.cluster.shape import mebibytes
from tidepool.infrastructures.boot_media.options import BmcOptions, BootedSiteOptions, Path

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$")]


class Host(BmcOptions):
    """A host, and the BMC by which it is told what to do."""

    credentials: Path | None = Field(default=None, description="Another file than all others'.")
    ca: Path | None = Field(default=None, description="Another file of who signs than all others'.")
    asset_tag: str = Field(
        default="",
        max_length=63,
        description="Its AssetTag when it is nobody's node, where the site has written one. It has it again when it is given back.",
    )


class Disk(Part):
    """The disk of a host that its root is on: of those that are so, the smallest that the image has room on."""

    serial: str = Field(default="", max_length=63, description="Its serial number.")
    wwn: str = Field(
        default="",
        pattern=r"^((0x)?[0-9A-Fa-f]{16,32})?$",
        description="Its World Wide Name, in hexadecimal digits.",
    )
    least_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        default=0, validation_alias="least", ge=0, description="How large it is at least."
    )
    most_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        default=0, validation_alias="most", ge=0, description="How large it is at most; 0 is any size."
    )
    overwrite: bool = Field(
        default=False,
        description="Whether it is written to where there are somebody's data on it; with serial or wwn, so that no other is meant.",
    )
    wipe: Literal["all", "headers"] = Field(
        default="all",
        description="What is wiped when the host is given back: all of the disk, or what says that there is something on it.",
    )

    @model_validator(mode="after")
    def _overwrites_one(self) -> Disk:
        if self.overwrite and not (self.serial or self.wwn):
            raise ValueError("overwrite is for one disk: name its serial or wwn")
        if self.most_mib and self.most_mib < self.least_mib:
            raise ValueError("most is less than least: no disk is so large")
        return self

    @property
    def hints(self) -> dict[str, str | int | bool]:
        """The same for the installer; sizes in bytes."""
        return {
            "serial": self.serial,
            "wwn": self.wwn,
            "least": self.least_mib << 20,
            "most": self.most_mib << 20,
            "overwrite": self.overwrite,
        }


class Offering(Part):
    """Options of a fleet's machines."""

    hosts: tuple[Name, ...] | None = Field(
        default=None, min_length=1, description="The hosts that may be such machines; by default all."
    )
    bios: Annotated[dict[str, str | bool | Whole], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="Attributes of the BIOS that hosts are given before they boot, by the firmware's own names: `{LogicalProc: Disabled}`.",
    )
    root: Literal["memory", "disk"] = Field(
        default="memory",
        description="Where the root is: in memory, as new after each boot, or on a disk of the host, which is wiped when that is given "
        "back.",
    )
    disk: Disk = Field(default_factory=Disk, description="With `root: disk`, which disk that is.")
    overhead_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        default=2 * 1024,
        validation_alias="overhead",
        ge=0,
        description="Memory that a host has beside what jobs are given: for the image as it is packed, all that is written to the root, "
        "the kernel and daemons.",
    )
    wipe_timeout_s: Whole = Field(
        default=3600,
        ge=60,
        le=7 * 24 * 3600,
        description="How long writing a disk, or wiping it, may take, in seconds; what takes longer is gone on with by the next `up`.",
    )
    boot_timeout_s: Whole = Field(
        default=1200,
        ge=1,
        le=7200,
        description="How long a host may take, in seconds, from switching on until it answers by SSH.",
    )

    @model_validator(mode="after")
    def _has_a_disk(self) -> Offering:
        if self.root != "disk" and self.disk != Disk():
            raise ValueError("disk says which disk the root is on: write root: disk, or leave it out")
        return self


class SiteOptions(BootedSiteOptions):
    """The hosts, how their BMCs are reached, what they boot from, and what they share."""

    hosts: Annotated[
        dict[Name, Host], Field(min_length=1), AfterValidator(by_name), AfterValidator(frozen)
    ] = Field(description="Hosts by name.")
    credentials: Path = Field(
        default="~/.config/tidepool/bmc",
        description="A file of one line, `USER:PASSWORD`, that nobody else may read. It is read whenever a BMC is asked, and kept "
        "nowhere else.",
    )
    ca: Path | None = Field(
        default=None,
        description="A file with the certificates of who signs the BMCs'; by default those that this machine trusts.",
    )
    verify: bool = Field(
        default=True,
        description="Whether certificates are verified. Without it anybody between can have the password.",
    )
    machines: Offering = Field(
        default_factory=Offering, description="What the cluster's own machines are; as of a fleet."
    )

    @model_validator(mode="after")
    def _verifies_by_one(self) -> SiteOptions:
        if not self.verify and self.ca is not None:
            raise ValueError("ca says who is trusted, and verify: false that all are; leave one of them out")
        return self
