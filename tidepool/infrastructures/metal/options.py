"""Options of bare metal: the hosts with their BMCs, of the whole cluster; of a fleet's machines, with each fleet's entry."""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.names import by_name
from tidepool.cluster.part import Part, Whole
from tidepool.cluster.shape import mebibytes

_NFS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*:/[^\s:]*")

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$")]
Path = Annotated[str, Field(pattern=r"^(/|~/)\S+$")]
#: The address of a service: no user and no password in it.
Url = Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+/?$")]


def _export(source: str) -> str:
    if not _NFS.fullmatch(source):
        raise ValueError("write an NFS export: SERVER:/PATH")
    return source


def _mac(value: Any) -> Any:
    return value.lower().replace("-", ":") if isinstance(value, str) else value


class Host(Part):
    """A host, and the BMC by which it is told what to do."""

    bmc: Url = Field(description="Where its BMC answers by Redfish, as in `https://10.9.1.11`.")
    system: str = Field(
        default="",
        pattern=r"^(/redfish/v1/Systems/\S+)?$",
        description="Which system of the BMC it is, as `/redfish/v1/Systems/1`; by default the only one.",
    )
    mac: Annotated[str, BeforeValidator(_mac), Field(pattern=r"^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$")] = (
        Field(description="The hardware address of its interface in the cluster's network.")
    )
    credentials: Path | None = Field(default=None, description="Another file than all others'.")
    ca: Path | None = Field(default=None, description="Another file of who signs than all others'.")
    asset_tag: str = Field(
        default="",
        max_length=63,
        description="Its AssetTag when it is nobody's node, where the site has written one. It has it again when it is given back.",
    )


class Offering(Part):
    """Options of a fleet's machines."""

    hosts: tuple[Name, ...] | None = Field(
        default=None, min_length=1, description="The hosts that may be such machines; by default all."
    )
    bios: Annotated[dict[str, str | bool | Whole], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="Attributes of the BIOS that hosts are given before they boot, by the firmware's own names: `{LogicalProc: Disabled}`.",
    )
    overhead_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        default=4 * 1024,
        validation_alias="overhead",
        ge=0,
        description="Memory that a host has beside what jobs are given: for the whole image, the kernel and daemons.",
    )
    boot_timeout_s: Whole = Field(
        default=1200,
        ge=1,
        le=7200,
        description="How long a host may take, in seconds, from switching on until it answers by SSH.",
    )


class SiteOptions(Part):
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
    boot_service: Url = Field(
        description="Where BMCs find this stack's boot service: `http://10.9.0.5:8081`."
    )
    gateway: IPv4Address | None = Field(
        default=None, description="The router of the cluster's network, where it has one."
    )
    nameservers: tuple[IPv4Address, ...] = Field(default=(), description="Name servers of machines.")
    volumes: Annotated[dict[str, Annotated[str, AfterValidator(_export)]], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="Where what machines share is: NFS exports `SERVER:/PATH` of `home`, `slurmctld`, with accounting `database`.",
    )
    machines: Offering = Field(
        default_factory=Offering, description="What the cluster's own machines are; as of a fleet."
    )

    @model_validator(mode="after")
    def _verifies_by_one(self) -> SiteOptions:
        if not self.verify and self.ca is not None:
            raise ValueError("ca says who is trusted, and verify: false that all are; leave one of them out")
        return self
