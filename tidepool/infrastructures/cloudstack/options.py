"""Options of CloudStack: of the place, with the controller's infrastructure; of machines, with each fleet's."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal
from xml.etree import ElementTree

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.part import Part, Whole
from tidepool.cluster.shape import mebibytes

_NFS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*:/[^\s:]*")

#: Names of what is in CloudStack: anything that people write there, on one line.
Name = Annotated[str, Field(pattern=r"^\S(.{0,253}\S)?$")]
#: Shapes of affinity, in CloudStack's words.
Affinity = Literal[
    "host affinity", "host anti-affinity", "non-strict host affinity", "non-strict host anti-affinity"
]


def _export(source: str) -> str:
    if not _NFS.fullmatch(source):
        raise ValueError("write an NFS export: SERVER:/PATH")
    return source


def _devices(xml: str) -> str:
    try:
        ElementTree.fromstring(f"<devices>{xml}</devices>")  # noqa: S314 - it is the person's own
    except ElementTree.ParseError as error:
        raise ValueError(
            f"it is no XML: {error}; write elements of a domain, as <hostdev>...</hostdev>"
        ) from error
    return xml


def _gpu(details: Any) -> Any:
    has = {"pciDevice", "vgpuType"} & {*details}
    if len(has) == 1:
        raise ValueError(
            f"there is {has.pop()} alone: CloudStack knows a GPU by pciDevice and vgpuType; write both"
        )
    return details


class Offering(Part):
    """Options of a fleet's machines."""

    service_offering: Name | None = Field(
        default=None,
        description="The service offering that machines are of; by default the smallest one that fits their shape, or one "
        "that is made (`make_offerings`).",
    )
    details: Annotated[dict[str, str], AfterValidator(_gpu), AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="What the service offering must say besides, as of GPUs: `{pciDevice: 'Group of NVIDIA GPUs', vgpuType: passthrough}`.",
    )
    host_tags: tuple[Annotated[str, Field(pattern=r"^[^\s,]+$")], ...] = Field(
        default=(),
        description="Tags of hosts that the service offering must ask for: its machines are on hosts that have all of them.",
    )
    extra_config: Annotated[str, AfterValidator(_devices)] = Field(
        default="",
        description="XML of libvirt that each machine's domain has besides, on hosts with KVM: a device of the host, `<hostdev>`. CloudStack "
        "takes what its settings allow.",
    )
    affinity: Affinity | None = Field(
        default=None,
        description="A group of all of these machines, strict or not. With a strict `host anti-affinity` each is on a host of its own.",
    )
    disk_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        default=16 * 1024,
        validation_alias="disk",
        ge=4096,
        description="How large the root disk is, in whole GiB.",
    )
    overhead_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        default=256,
        validation_alias="overhead",
        ge=0,
        description="Memory that the machine has beside what jobs are given, for its kernel and daemons.",
    )
    boot_timeout_s: Whole = Field(
        default=600,
        ge=1,
        le=1500,
        description="How long a machine may take, in seconds, until it answers by SSH.",
    )

    @property
    def disk_gib(self) -> int:
        return -(-self.disk_mib // 1024)


class Store(Part):
    """The volume of the file server, which has all that it serves."""

    size_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        validation_alias="size", ge=1024, description="How large it is, in whole GiB. It may become larger."
    )
    disk_offering: Name = Field(
        default="Custom",
        description="The disk offering that it is made of; by default CloudStack's own, which leaves the size open.",
    )

    @property
    def size_gib(self) -> int:
        return -(-self.size_mib // 1024)


class SiteOptions(Part):
    """The CloudStack, whose part of it this is, and its network: of the whole cluster."""

    endpoint: str = Field(
        pattern=r"^https?://[^\s~?]+$",
        description="The API, as in `https://cloud.site/client/api`. Keys are no part of the spec.",
    )
    zone: Name = Field(description="The zone that machines are in.")
    project: Name | None = Field(default=None, description="The department's project, where it has one.")
    account: Name | None = Field(
        default=None, description="Or its account; by default that of who the keys are."
    )
    domain: Name | None = Field(
        default=None, description="The domain of `account`, by its path: `ROOT/science`."
    )
    network_offering: Name | None = Field(
        default=None,
        description="What the network is made of, by default CloudStack's own: "
        "`DefaultIsolatedNetworkOfferingWithSourceNatService`, in a VPC `DefaultIsolatedNetworkOfferingForVpcNetworks`.",
    )
    vpc: Name | None = Field(
        default=None, description="A VPC that is there: the cluster's network is a tier of it."
    )
    hypervisor: Name = Field(
        default="KVM",
        description="What the zone's hosts run. Another than KVM was not tried yet, by any test or by hand.",
    )
    images: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s~?]+[^\s~?/]$",
        description="Where CloudStack finds images: the URL of a folder in which you put `NAME-DIGEST.qcow2` of each.",
    )
    template: Name | None = Field(
        default=None, description="Or a template that is there, which has all that the images would have."
    )
    os_type: Name = Field(
        default="Debian GNU/Linux 12 (64-bit)",
        description="What CloudStack takes the images for, which decides about their devices.",
    )
    make_offerings: bool = Field(
        default=False,
        description="Whether service offerings are made for shapes. Only a root administrator may.",
    )
    cpu_mhz: Whole = Field(
        default=2000,
        ge=1,
        description="With `make_offerings`: how much of each processor a machine is promised, in CloudStack's MHz.",
    )
    volumes: Annotated[dict[str, Annotated[str, AfterValidator(_export)]], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="Where what machines share is: NFS exports `SERVER:/PATH` of `home`, `slurmctld`, with accounting "
        "`database`.",
    )
    store: Store | None = Field(
        default=None,
        description="With `file_server`: the volume of data that has all that it serves. It is made, kept, and found again by its name, "
        "`tidepool-STACK-store`.",
    )
    machines: Offering = Field(
        default_factory=Offering, description="What kind of machines the cluster's own are; as of a fleet."
    )

    @model_validator(mode="after")
    def _goes_together(self) -> SiteOptions:
        if self.project and (self.account or self.domain):
            raise ValueError("a project has its own account; leave account and domain out")
        if self.domain and not self.account:
            raise ValueError("a domain is one's of an account: name that, or leave the domain out")
        if (self.images is None) == (self.template is None):
            raise ValueError("write images or template, and not both: what machines boot from")
        return self

    @property
    def offering_of_network(self) -> str:
        return self.network_offering or (
            "DefaultIsolatedNetworkOfferingForVpcNetworks"
            if self.vpc
            else "DefaultIsolatedNetworkOfferingWithSourceNatService"
        )
