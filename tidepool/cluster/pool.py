"""Converged pools: machines that serve Slurm or Kubernetes, one at a time; and the Kubernetes that they can serve."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from tidepool.cluster import addresses
from tidepool.cluster.fleet import Fleet, Infrastructure, MachineSource
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.names import fleet_name
from tidepool.cluster.part import Features, ImageName, Labels, Network, Part, SlurmRelease, Whole, read_name
from tidepool.cluster.roles import AtDeadline, Role
from tidepool.cluster.shape import Shape
from tidepool.cluster.slots import Slot, slots


class ConvergedPool(Part):
    """Machines that are alike, made from one image that holds both roles. Each serves Slurm or Kubernetes.

    In Slurm a pool is what a fleet is: its nodes have its name as a feature, and partitions name it among their fleets.
    """

    name: Annotated[str, AfterValidator(fleet_name)] = Field(
        description="Begins the names of its machines, in Slurm and in Kubernetes: `shared-3`. No fleet has it as well."
    )
    subnet: Network = Field(
        description="Where its machines have their addresses, within `network`, as a fleet's nodes."
    )
    machines: Whole = Field(ge=1, le=250, description="How many machines it has, all the time.")
    shape: Shape = Field(description="What each machine has.")
    infrastructure: Annotated[MachineSource, BeforeValidator(read_name)] | None = Field(
        default=None,
        description="Where its machines come from: a name, or more details. By default from where the cluster's own machines "
        "are. Machines of `local` and `libvirt` take roles.",
    )
    features: Features = Field(default=(), description="Words that jobs can ask for, beside the name.")
    labels: Labels = Field(
        default_factory=FrozenDict,
        description="Labels of its Kubernetes nodes, beside `tidepool/pool`, which is its name.",
    )
    image: ImageName = Field(
        default="debian-12-converged", description="Its golden image, which must hold both roles."
    )
    slurm_version: SlurmRelease | None = Field(
        default=None, description="The release of Slurm in that image, where it is older than the cluster's."
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
            image=self.image,
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
