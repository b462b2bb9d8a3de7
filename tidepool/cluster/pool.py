"""Converged pools: machines that serve Slurm or Kubernetes, one at a time; and the Kubernetes that they can serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from tidepool.cluster import addresses
from tidepool.cluster.fleet import Fleet, Infrastructure, MachineSource, OfferingName
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.names import fleet_name
from tidepool.cluster.part import Features, ImageName, Labels, Network, Part, SlurmRelease, Whole, read_name
from tidepool.cluster.roles import ROLES, AtDeadline, Role
from tidepool.cluster.shape import Shape
from tidepool.cluster.slots import Slot, slots


class RoleImages(Part):
    """Golden images of the roles: a machine that is converted is made anew from that of its new role, where they differ."""

    slurm: ImageName | None = Field(
        default=None, description="That of machines which serve Slurm, instead of `image`."
    )
    kubernetes: ImageName | None = Field(
        default=None, description="That of machines which serve Kubernetes, instead of `image`."
    )


class ConvergedPool(Part):
    """Machines that are alike, made from one image that holds both roles, or from one for each. Each serves Slurm or Kubernetes.

    In Slurm a pool is what a fleet is: its nodes have its name as a feature, and partitions name it among their fleets.
    """

    name: Annotated[str, AfterValidator(fleet_name)] = Field(
        description="Begins the names of its machines, in Slurm and in Kubernetes: `shared-3`. No fleet has it as well."
    )
    subnet: Network = Field(
        description="Where its machines have their addresses, within `network`, as a fleet's nodes."
    )
    machines: Whole = Field(ge=1, le=250, description="How many machines it has, all the time.")
    offering: OfferingName | None = Field(
        default=None, description="One of `offerings`: what its machines are, where they come from."
    )
    shape: Shape = Field(
        description="What each machine has; where an offering says it, what that says.",
        json_schema_extra={"without": "offering"},
    )
    infrastructure: Annotated[MachineSource, BeforeValidator(read_name)] | None = Field(
        default=None,
        description="Where its machines come from: a name, or more details. By default from where the cluster's own machines "
        "are. Pods of `kubernetes` and allocations of `nomad` take no roles.",
    )
    features: Features = Field(default=(), description="Words that jobs can ask for, beside the name.")
    labels: Labels = Field(
        default_factory=FrozenDict,
        description="Labels of its Kubernetes nodes, beside `tidepool/pool`, which is its name.",
    )
    image: ImageName = Field(
        default="debian-12-converged",
        description="Its golden image, which must hold both roles, but for those that `images` names one for.",
    )
    images: RoleImages = Field(
        default=RoleImages(),
        description="An image for a role alone, such as an older operating system for Slurm. Where the two are not the same one, "
        "a conversion makes the machine anew from the other image, and boots it. Machines of `libvirt`, `aws` and `metal` can.",
    )
    slurm_version: SlurmRelease | None = Field(
        default=None,
        description="The release of Slurm in the image of that role, where it is older than the cluster's.",
    )
    slurm_min: Whole = Field(default=0, ge=0, description="How many machines serve Slurm at least.")
    slurm_max: Whole | None = Field(default=None, ge=0, description="At most; all by default.")
    kubernetes_min: Whole = Field(default=0, ge=0, description="How many machines serve Kubernetes at least.")
    kubernetes_max: Whole | None = Field(default=None, ge=0, description="At most; all by default.")
    prefers: Role = Field(
        default="slurm", description="Whose demand comes first where both queues want the same machine."
    )
    idle_s: Whole = Field(
        default=10,
        ge=0,
        description="How long a machine has to be without work, in seconds, before it moves.",
    )
    minimum_stay_s: Whole = Field(
        default=60,
        ge=0,
        description="How long a machine keeps a role at least, in seconds, before the scaler moves it.",
    )
    deadline_s: Whole = Field(
        default=3600,
        ge=1,
        description="How long a graceful conversion waits for jobs and pods to end, in seconds.",
    )
    at_deadline: AtDeadline = Field(
        default="stop",
        description="What comes then: `stop` leaves the machine what it was, `force` requeues the jobs and kills the pods.",
    )

    @field_validator("machines")
    @classmethod
    def _as_many_as_addresses(cls, machines: int, others: ValidationInfo) -> int:
        subnet = others.data.get("subnet")
        if subnet is not None and machines > addresses.capacity(subnet):
            raise ValueError(
                f"the subnet {subnet} has addresses for {addresses.capacity(subnet)} machines; "
                "lower machines, or take a larger subnet"
            )
        return machines

    @field_validator("slurm_min", "kubernetes_min")
    @classmethod
    def _no_more_than_there_are(cls, least: int, others: ValidationInfo) -> int:
        machines, slurm_min = others.data.get("machines"), others.data.get("slurm_min", 0)
        if machines is not None and least > machines:
            raise ValueError(f"more than the {machines} machines; lower it, or raise machines")
        if machines is not None and slurm_min + least > machines:
            raise ValueError(
                f"with slurm_min, which is {slurm_min}, more than the {machines} machines; lower one of them, or "
                "raise machines"
            )
        return least

    @field_validator("slurm_max", "kubernetes_max")
    @classmethod
    def _no_less_than_there_must_be(cls, most: int | None, others: ValidationInfo) -> int | None:
        role = str(others.field_name).removesuffix("_max")
        least = others.data.get(f"{role}_min")
        if most is not None and least is not None and most < least:
            raise ValueError(f"less than {role}_min, which is {least}; raise it, or lower that")
        machines, slurm_max = others.data.get("machines"), others.data.get("slurm_max")
        if (
            role == "kubernetes"
            and most is not None
            and machines is not None
            and slurm_max is not None
            and slurm_max + most < machines
        ):
            raise ValueError(
                f"with slurm_max, which is {slurm_max}, it leaves {machines - slurm_max - most} of the {machines} "
                "machines without a role; raise one of them, or lower machines"
            )
        return most

    def least(self, role: Role) -> int:
        return self.slurm_min if role == "slurm" else self.kubernetes_min

    def most(self, role: Role) -> int:
        said = self.slurm_max if role == "slurm" else self.kubernetes_max
        return self.machines if said is None else min(said, self.machines)

    def image_of(self, role: Role) -> str:
        """Return the image of machines that have the role."""
        named = self.images.slurm if role == "slurm" else self.images.kubernetes
        return named or self.image

    @property
    def role_images(self) -> Mapping[Role, str]:
        """The images of both roles, where they are not the same one; else nothing."""
        by_role = {role: self.image_of(role) for role in ROLES}
        return by_role if len({*by_role.values()}) > 1 else {}

    def slots(self) -> tuple[Slot, ...]:
        return tuple(slots(self.name, self.subnet, self.machines))

    def as_fleet(self, by_default: str) -> Fleet:
        """Return the fleet that it is to the infrastructure of its machines: ``by_default``, where it names none."""
        source = self.infrastructure or MachineSource(name=by_default)
        return Fleet(
            name=self.name,
            subnet=self.subnet,
            min_nodes=self.machines,
            max_nodes=self.machines,
            shape=self.shape,
            features=self.features,
            infrastructures=(Infrastructure(name=source.name, options=source.options),),
            image=self.image_of("slurm"),
            slurm_version=self.slurm_version,
        )


class Kubernetes(Part):
    """The Kubernetes that pools serve: one of the cluster's own, or with ``kubeconfig`` another's."""

    kubeconfig: str | None = Field(
        default=None,
        description="The path of a kubeconfig, for a Kubernetes that is there already. By default the cluster has a control "
        "plane of its own.",
    )
    shape: Shape = Field(
        default=Shape(cpus=2, memory_mib=2048),
        description="What the machine of the control plane has.",
    )
    pod_network: Network = Field(
        default=addresses.POD_NETWORK,
        description="Where pods have their addresses: a /24 of it for each machine of a pool.",
    )
    service_network: Network = Field(
        default=addresses.SERVICE_NETWORK, description="Where services of Kubernetes have theirs."
    )
