"""Options of Ironic: where it is and how machines are reached, of the whole cluster; of a fleet's machines, with each fleet's entry."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.names import by_name
from tidepool.cluster.part import Part, Whole
from tidepool.cluster.shape import mebibytes
from tidepool.infrastructures.boot_media.options import BmcOptions, BootedSiteOptions, Path

#: The name or the UUID of a node of Ironic.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.~-]*[A-Za-z0-9])?$")]


class Enrolment(BmcOptions):
    """A host that this stack enrols in the Ironic, where nobody has."""

    credentials: Path = Field(
        default="~/.config/tidepool/bmc",
        description="A file of one line, `USER:PASSWORD` of the BMC, that nobody else may read. Ironic is given them.",
    )
    verify: bool = Field(default=True, description="Whether Ironic verifies the BMC's certificate.")
    resource_class: str = Field(
        default="", pattern=r"^\S*$", max_length=80, description="Its resource class."
    )
    traits: tuple[Annotated[str, Field(pattern=r"^[A-Z0-9_]+$")], ...] = Field(
        default=(), description="Its traits."
    )


class Offering(Part):
    """Options of a fleet's machines."""

    hosts: tuple[Name, ...] | None = Field(
        default=None,
        min_length=1,
        description="The nodes of Ironic that may be such machines, by name or UUID; by default all that are fit.",
    )
    resource_class: str = Field(
        default="", pattern=r"^\S*$", max_length=80, description="The resource class that they have."
    )
    traits: tuple[Annotated[str, Field(pattern=r"^[A-Z0-9_]+$")], ...] = Field(
        default=(), description="Traits that they all have: `CUSTOM_INFINIBAND`."
    )
    overhead_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        default=4 * 1024,
        validation_alias="overhead",
        ge=0,
        description="Memory that a host has beside what jobs are given: for the image as it is packed, what is written to the root, the kernel and daemons.",
    )
    boot_timeout_s: Whole = Field(
        default=1200,
        ge=1,
        le=7200,
        description="How long a host may take, in seconds, from when Ironic says that it is deployed until it answers by SSH.",
    )


class SiteOptions(BootedSiteOptions):
    """The Ironic, what its nodes boot from, and what machines share."""

    cloud: Name = Field(
        default="ironic", description="The name of the cloud in `clouds_file` that has the Ironic."
    )
    clouds_file: Path = Field(
        default="~/.config/openstack/clouds.yaml",
        description="The file `clouds.yaml` of OpenStack that says where Ironic is and who may use it: with Keystone, by "
        "`http_basic`, or `none`. Nobody else may read it. It is read on this machine, and kept nowhere else.",
    )
    physical_network: str = Field(
        default="",
        pattern=r"^\S*$",
        max_length=64,
        description="The physical network of those ports that are in the cluster's network, as Ironic has it; for hosts with several.",
    )
    enrol: Annotated[dict[Name, Enrolment], AfterValidator(by_name), AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="Hosts by name that this stack enrols, where they are not yet; others that are enrolled are used as well.",
    )
    machines: Offering = Field(
        default_factory=Offering, description="What the cluster's own machines are; as of a fleet."
    )
