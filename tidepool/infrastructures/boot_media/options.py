"""Options that are the same wherever hosts boot from the stack's own boot service."""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.part import Part

_NFS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*:/[^\s:]*")

Path = Annotated[str, Field(pattern=r"^(/|~/)\S+$")]
#: The address of a service: no user and no password in it.
Url = Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+/?$")]


def _export(source: str) -> str:
    if not _NFS.fullmatch(source):
        raise ValueError("write an NFS export: SERVER:/PATH")
    return source


def _mac(value: Any) -> Any:
    return value.lower().replace("-", ":") if isinstance(value, str) else value


class BmcOptions(Part):
    """The BMC of a host, by which it is told what to do, and its place in the cluster's network."""

    bmc: Url = Field(description="Where its BMC answers by Redfish, as in `https://10.9.1.11`.")
    system: str = Field(
        default="",
        pattern=r"^(/redfish/v1/Systems/\S+)?$",
        description="Which system of the BMC it is, as `/redfish/v1/Systems/1`; by default the only one.",
    )
    mac: Annotated[str, BeforeValidator(_mac), Field(pattern=r"^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$")] = (
        Field(description="The hardware address of its interface in the cluster's network.")
    )


class BootedSiteOptions(Part):
    """Services of a site whose hosts boot from the stack's own boot service."""

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
