"""Options of AWS: of the region, with the controller's infrastructure; of machines, with each entry of a fleet."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from tidepool.cluster.frozen import frozen
from tidepool.cluster.part import Network, Part, Whole
from tidepool.cluster.shape import mebibytes

NAME: Final = "aws"
_NFS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*:/[^\s:]*")
_REGION: Final = r"^[a-z]{2}(-[a-z]+)+-[0-9]$"
_TYPE: Final = r"^[a-z0-9-]+\.[a-z0-9-]+$"

Zone = Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9][a-z]$")]
InstanceType = Annotated[str, Field(pattern=_TYPE)]


def _adapters(value: object) -> object:
    """Yes is one, and no is none."""
    return int(value) if isinstance(value, bool) else value


def _home(value: str) -> str:
    if value not in ("efs", "lustre") and not _NFS.fullmatch(value):
        raise ValueError("write efs, lustre, or an NFS export that machines of the VPC reach: SERVER:/PATH")
    return value


class Offering(Part):
    """Options of a fleet's machines: their type, and their zone. A launch template each."""

    instance_type: InstanceType = Field(description="The instance type: `c7i.8xlarge`.")
    zone: Zone | None = Field(
        default=None, description="The availability zone; by default the first of the place's."
    )
    market: Literal["on-demand", "spot"] = Field(
        default="on-demand", description="`spot` machines are cheaper, and AWS may take them back."
    )
    max_price_usd_per_hour: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="The most that a spot machine may cost; by default what an on-demand one does.",
    )
    placement_group: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$")] | None = Field(
        default=None,
        description="A name of your own: machines of the same one are near each other, in one zone (a cluster placement group).",
    )
    efa: Annotated[Whole, BeforeValidator(_adapters)] = Field(
        default=0,
        ge=0,
        description="How many Elastic Fabric Adapters machines have, each on a network card of its own, for MPI past the kernel; "
        "`true` is one.",
    )
    disk_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        default=16 * 1024, validation_alias="disk", ge=4096, description="How large the machine's disk is."
    )
    overhead_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        default=1024,
        validation_alias="overhead",
        ge=0,
        description="Memory of the machine that jobs are not given: its kernel, its firmware, its daemons.",
    )
    first_boot: str = Field(
        default="",
        description="A shell script that a machine runs as root before anything else when it boots for the first time. It is "
        "in the machine's user data, which its users can read.",
    )

    @field_validator("max_price_usd_per_hour")
    @classmethod
    def _of_spot(cls, price: float | None, others: ValidationInfo) -> float | None:
        if price is not None and others.data.get("market") == "on-demand":
            raise ValueError("it is for spot machines; write market: spot, or leave it out")
        return price

    @property
    def disk_gib(self) -> int:
        """As EBS counts, rounded up."""
        return -(-self.disk_mib // 1024)


class GivenNetwork(Part):
    """A VPC that is there already, in which somebody else made subnets and route tables."""

    vpc: str = Field(pattern=r"^vpc-[0-9a-f]+$", description="Its id.")
    subnets: Annotated[
        dict[Zone, Annotated[str, Field(pattern=r"^subnet-[0-9a-f]+$")]], AfterValidator(frozen)
    ] = Field(
        min_length=1,
        description="A subnet for each zone. From it machines must reach Secrets Manager: by an endpoint or a NAT gateway.",
    )
    route_table: str = Field(
        pattern=r"^rtb-[0-9a-f]+$",
        description="The route table that all of these subnets have: each machine's address is a route in it.",
    )
    endpoint_group: Annotated[str, Field(pattern=r"^sg-[0-9a-f]+$")] | None = Field(
        default=None,
        description="The security group of the endpoint of Secrets Manager there. Without it machines may open HTTPS to all that "
        "the VPC leads to.",
    )


class Lustre(Part):
    """An FSx for Lustre file system, where `home` is one."""

    storage_gib: Whole = Field(default=1200, ge=1200, description="1200, or a multiple of 2400.")
    deployment: Literal["SCRATCH_2", "PERSISTENT_2"] = Field(
        default="PERSISTENT_2", description="`SCRATCH_2` is not kept twice: what is on it can be lost."
    )
    throughput: Literal[125, 250, 500, 1000] = Field(
        default=125, description="In MB/s for each TiB; of `PERSISTENT_2` alone."
    )

    @field_validator("storage_gib")
    @classmethod
    def _in_steps(cls, storage: int) -> int:
        if storage != 1200 and storage % 2400:
            raise ValueError(f"write 1200, or a multiple of 2400: {(storage // 2400 + 1) * 2400}")
        return storage


class SiteOptions(Part):
    """The region, the network, and what machines share: of the whole cluster."""

    region: Annotated[str, Field(pattern=_REGION)] = Field(description="The region: `eu-central-1`.")
    zones: tuple[Zone, ...] = Field(
        default=(),
        description="The zones in which the stack's own VPC has a subnet, the cluster's own machines in the first.",
    )
    cidr: Network = Field(
        default_factory=lambda: IPv4Network("172.30.0.0/16"),
        description="The addresses of the stack's own VPC. Not those of `network`, which are routes within it.",
    )
    given: GivenNetwork | None = Field(
        default=None, description="A VPC that is there already, in place of one of the stack's own."
    )
    outside: bool = Field(
        default=False,
        description="Whether a NAT gateway leads out of the stack's own VPC; who may use it, and for what, says `firewall`.",
    )
    administrators: tuple[Network, ...] = Field(
        default=(), description="Networks from which machines are reached by SSH: that of this machine too."
    )
    transit_gateway: Annotated[str, Field(pattern=r"^tgw-[0-9a-f]+$")] | None = Field(
        default=None,
        description="The way between the stack's own VPC and the administrators. In its route table a person makes a route "
        "to `network`.",
    )
    kubernetes: tuple[Network, ...] = Field(
        default=(),
        description="With machines of pools and `kubernetes.kubeconfig`: networks of that Kubernetes, of its API server, its nodes and their "
        "pods. Machines of pools call them, and are called by them.",
    )
    home: Annotated[str, AfterValidator(_home)] = Field(
        default="efs",
        description="What /home is: `efs`, `lustre`, or an NFS export `SERVER:/PATH`. `lustre` is refused unless the images have "
        "its client, `lustre-client`, which none of the recipes here has.",
    )
    lustre: Lustre = Field(default_factory=Lustre, description="What the Lustre file system is like.")
    state_gib: Whole = Field(
        default=8, ge=1, le=16384, description="How large the volume of slurmctld's state is."
    )
    database_gib: Whole = Field(
        default=32,
        ge=1,
        le=16384,
        description="How large the volume of the accounting database is. Not tried yet, by any test or by hand.",
    )
    kms_key: Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/.+$")] | None = (
        Field(
            default=None,
            description="The ARN of a key of yours that disks are encrypted with; by default AWS's own.",
        )
    )
    machines: Offering = Field(
        default_factory=lambda: Offering(instance_type="m7i.large"),
        description="What kind of machines the cluster's own are; as of a fleet.",
    )

    @property
    def all_zones(self) -> tuple[str, ...]:
        """The zones that machines can be in, the first in charge."""
        return tuple(self.given.subnets) if self.given else self.zones
