"""`ClusterSpec`: what a cluster should be, as a person says it in ``Pulumi.<stack>.yaml``. Frozen, in all its parts.

`tidepool.cluster.spec_reading` reads it from the plain mapping that stands there, and tells of all mistakes at
once. Built in Python, the models check the same things and raise pydantic's ValidationError.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)
from pydantic_core.core_schema import ValidationInfo

from tidepool.cluster import addresses, spec_checks
from tidepool.cluster.features import Features
from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.names import cluster_name, fleet_name, partition_name
from tidepool.cluster.part import Part, Whole
from tidepool.cluster.scaling import Scaling
from tidepool.cluster.shape import Shape
from tidepool.cluster.slots import Slot, slots
from tidepool.cluster.slurm_keys import Release

InfrastructureName = Literal["local", "libvirt", "aws", "nomad", "kubernetes", "cloudstack", "metal", "ssh"]

_TIME = re.compile(r"UNLIMITED|INFINITE|([0-9]+-)?[0-9]+(:[0-9]{1,2}){0,2}", re.IGNORECASE)


def _network(value: Any) -> Any:
    if isinstance(value, IPv4Network):
        return value
    if not isinstance(value, str) or "/" not in value:
        raise ValueError("write an IPv4 network with the length of its prefix: 10.77.0.0/16")
    try:
        network = IPv4Network(value, strict=False)
    except (AddressValueError, NetmaskValueError) as error:
        raise ValueError(f"{error}; write an IPv4 network such as 10.77.0.0/16") from error
    if str(network.network_address) != value.partition("/")[0]:
        raise ValueError(f"the address has bits beyond its prefix; write {network}")
    return network


def _time(value: Any) -> Any:
    text = str(value)
    if isinstance(value, bool) or not _TIME.fullmatch(text):
        raise ValueError(
            "write a time as Slurm does: minutes, hours:minutes:seconds, days-hours, or UNLIMITED; "
            "in quotes, or YAML takes 1:30 for a number"
        )
    return text


def _scalar(value: Any) -> Any:
    if not isinstance(value, str | int | float):
        raise ValueError("write one text, number, yes or no, as it is to stand in Slurm's file")
    return value


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


Network = Annotated[IPv4Network, BeforeValidator(_network)]
SlurmTime = Annotated[str, BeforeValidator(_time)]
Options = Annotated[
    dict[str, Annotated[str | int | float | bool, BeforeValidator(_scalar)]], AfterValidator(frozen)
]
"""Keys and values of a file of Slurm's; frozen."""
ImageName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._/-]*$")]


class Infrastructure(Part):
    """Where machines come from, and what is particular to them there."""

    name: InfrastructureName = Field(description="Which infrastructure. `local` is this machine.")
    options: Annotated[dict[str, Any], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="What only this infrastructure knows, such as `instance_type`. It checks them itself.",
    )
    image: ImageName | None = Field(default=None, description="Another image than the fleet's.")
    price_usd_per_hour: float = Field(
        default=0,
        ge=0,
        allow_inf_nan=False,
        description="What one machine costs here, in US dollars an hour.",
    )
    max_nodes: Whole | None = Field(
        default=None, ge=0, description="How many of the fleet's nodes may be here; all by default."
    )


class Fleet(Part):
    """Nodes that are alike. Its name is also a feature of its nodes, by which jobs can ask for them."""

    name: Annotated[str, AfterValidator(fleet_name)] = Field(
        description="Begins the names of its nodes: slot 17 of `cpu` is the node `cpu-17`."
    )
    subnet: Network = Field(
        description="Where its nodes have their addresses, within `network`: slot 17 has address 17 of it. Never change "
        "it while the fleet has nodes; leave room to grow."
    )
    min_nodes: Whole = Field(
        default=0, ge=0, description="How many nodes are there however empty the queue is."
    )
    max_nodes: Whole = Field(
        ge=1,
        le=65_534,
        description="How many nodes there may be: so many slots Slurm is told of, and no more can run.",
    )
    shape: Shape = Field(description="What each node has.")
    features: Features = Field(
        default=(), description="Words that jobs can ask for with `--constraint`, beside the name."
    )
    infrastructures: tuple[Annotated[Infrastructure, BeforeValidator(_named)], ...] = Field(
        default=(Infrastructure(name="local"),),
        min_length=1,
        description="Where its machines come from, in order of preference: names, or more details as below.",
    )
    image: ImageName | None = Field(default=None, description="Another image than the cluster's.")
    idle_timeout_s: Whole = Field(
        default=300,
        ge=0,
        description="How long a node is idle, in seconds, before its machine goes, above `min_nodes`.",
    )

    @field_validator("max_nodes")
    @classmethod
    def _between_min_nodes_and_the_subnet(cls, max_nodes: int, others: ValidationInfo) -> int:
        min_nodes, subnet = others.data.get("min_nodes"), others.data.get("subnet")
        if min_nodes is not None and max_nodes < min_nodes:
            raise ValueError(f"less than min_nodes, which is {min_nodes}; raise max_nodes or lower min_nodes")
        if subnet is not None and max_nodes > addresses.capacity(subnet):
            raise ValueError(
                f"the subnet {subnet} has addresses for {addresses.capacity(subnet)} nodes; "
                "lower max_nodes, or take a larger subnet while the fleet has no nodes"
            )
        return max_nodes

    def slots(self) -> tuple[Slot, ...]:
        """All slots of the fleet, from 1 to ``max_nodes``."""
        return tuple(slots(self.name, self.subnet, self.max_nodes))


class Partition(Part):
    """A queue that jobs are submitted to."""

    name: Annotated[str, AfterValidator(partition_name)] = Field(description="What `sbatch -p` says.")
    fleets: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="The names of the fleets whose nodes are in it. By default, all fleets.",
    )
    default: bool = Field(
        default=False, description="Whether jobs that name no partition come here. At most one can be it."
    )
    max_time: SlurmTime = Field(
        default="UNLIMITED", description="The longest time that a job may run: `1-12:00:00`."
    )
    options: Options = Field(
        default_factory=FrozenDict,
        description="More of Slurm's keys for the partition's line, such as `PriorityTier`.",
    )


class Accounting(Part):
    """slurmdbd and its database, on a machine of their own."""

    enforce: tuple[Literal["associations", "limits", "nojobs", "nosteps", "qos", "safe", "wckeys"], ...] = (
        Field(default=(), description="What Slurm enforces of it. Slurm's AccountingStorageEnforce.")
    )
    shape: Shape = Field(default=Shape(cpus=1, memory_mib=2048), description="What its machine has.")


class Controller(Part):
    """The machines that are the cluster's own: slurmctld's, and those beside it."""

    shape: Shape = Field(
        default=Shape(cpus=2, memory_mib=2048), description="What the machine of slurmctld has."
    )
    infrastructure: Annotated[Infrastructure, BeforeValidator(_named)] = Field(
        default=Infrastructure(name="local"), description="Where the cluster's own machines come from."
    )
    backup: bool = Field(default=False, description="Whether a second controller stands by and takes over.")
    accounting: Accounting | None = Field(
        default=None, description="The accounting database; none by default."
    )
    login_machines: Whole = Field(
        default=1,
        ge=0,
        le=addresses.MOST_LOGIN_MACHINES,
        description="How many machines there are for people to log in to.",
    )
    image: ImageName | None = Field(default=None, description="Another image than the cluster's.")


class Limits(Part):
    """What the scaler never goes beyond, whatever waits in the queue."""

    max_nodes: Whole | None = Field(default=None, ge=0, description="Nodes of all fleets together.")
    price_usd_per_hour: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="What all machines together may cost, in US dollars an hour.",
    )
    budget_usd_per_month: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="What may be spent in a calendar month, in US dollars.",
    )


class ClusterSpec(Part):
    """One cluster: one department's, in one Pulumi stack."""

    name: Annotated[str, AfterValidator(cluster_name)] = Field(
        description="The cluster's name. Slurm's ClusterName."
    )
    network: Network = Field(
        description="The private network that the cluster has to itself. Its first "
        f"{addresses.OWN_PLACES} addresses are for the cluster's own machines, the rest is for fleets."
    )
    slurm_version: Release = Field(
        default="22.05",
        description="The release of Slurm that the images hold. Keys of Slurm's files are checked against it.",
    )
    image: ImageName = Field(
        default="debian-12", description="The golden image of all machines that name no other."
    )
    controller: Controller = Field(default=Controller(), description="The cluster's own machines.")
    fleets: tuple[Fleet, ...] = Field(default=(), description="The nodes that there can be, by their kinds.")
    partitions: tuple[Partition, ...] = Field(
        min_length=1,
        description="The queues that jobs are submitted to; `[{name: main}]` is enough to begin with.",
    )
    limits: Limits = Field(default=Limits(), description="What the scaler never goes beyond.")
    scaling: Scaling = Field(default=Scaling(), description="How the scaler works.")
    process_tracking: Literal["linuxproc", "cgroup"] = Field(
        default="linuxproc",
        description="How slurmd follows and confines the processes of a job. `cgroup` needs machines whose cgroups are "
        "delegated to them; `linuxproc` needs nothing, but loses what leaves its session.",
    )
    topology: Literal["flat", "tree"] = Field(
        default="flat",
        description="Whether Slurm knows which nodes are near each other: `tree` makes each fleet a switch, and raising `max_nodes` then needs a restart of slurmctld.",
    )
    slurm_conf: Options = Field(
        default_factory=FrozenDict,
        description="More of Slurm's keys for slurm.conf; they override Tidepool's own, but for those it needs.",
    )
    cgroup_conf: Options = Field(
        default_factory=FrozenDict,
        description="More of Slurm's keys for cgroup.conf, with `process_tracking: cgroup`.",
    )

    @field_validator("network")
    @classmethod
    def _is_fit(cls, network: IPv4Network) -> IPv4Network:
        if unfit := addresses.unfit(network):
            raise ValueError(unfit)
        return network

    @field_validator("slurm_version", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        # YAML takes 22.05 without quotes for a number.
        return f"{value:.2f}" if isinstance(value, float) else value

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        if found := spec_checks.disagreements(self.model_dump()):
            raise ValueError("\n".join(map(str, found)))
        return self

    @property
    def own_addresses(self) -> addresses.OwnAddresses:
        """The addresses of the cluster's own machines."""
        return addresses.OwnAddresses(self.network)

    @property
    def controller_image(self) -> str:
        """The name of the image of the cluster's own machines."""
        return self.controller.infrastructure.image or self.controller.image or self.image

    def fleet_image(self, fleet: Fleet, infrastructure: Infrastructure) -> str:
        """The name of the image of a fleet's machines on one of its infrastructures."""
        return infrastructure.image or fleet.image or self.image

    @property
    def images(self) -> tuple[str, ...]:
        """The names of all images that machines are made from, each once, in order."""
        of_fleets = {self.fleet_image(fleet, each) for fleet in self.fleets for each in fleet.infrastructures}
        return tuple(sorted({self.controller_image, *of_fleets}))

    def fleet(self, name: str) -> Fleet:
        """The fleet ``name``.

        Raises:
            KeyError: when there is none.
        """
        for fleet in self.fleets:
            if fleet.name == name:
                return fleet
        raise KeyError(name)
