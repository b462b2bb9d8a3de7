"""Fleets of a cluster: nodes of one shape, and the infrastructures that their machines are from."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from tidepool.cluster import addresses
from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.names import fleet_name
from tidepool.cluster.part import Features, ImageName, Network, Part, SlurmRelease, Whole, read_name
from tidepool.cluster.shape import Shape
from tidepool.cluster.slots import Slot, slots

InfrastructureName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*$")]
"""The registry knows which there are (`tidepool.infrastructures.registry`): packages bring others."""
OfferingName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$")]


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


OfferingNames = Annotated[tuple[OfferingName, ...], BeforeValidator(_listed)]
"""Names of offerings, or one."""


class MachineSource(Part):
    """An infrastructure, which machines come from, and what is particular to them there."""

    name: InfrastructureName = Field(
        description="Which infrastructure: `local`, which is this machine, `libvirt`, `aws`, `cloudstack`, `metal`, `ironic`, `nomad`, `kubernetes`, `ssh`, or one that a package of Python brings."
    )
    options: Annotated[dict[str, Any], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="What only this infrastructure knows, such as `instance_type`. It checks them itself.",
    )


class Infrastructure(MachineSource):
    """The same of a fleet, which may have several."""

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
    offering: OfferingName | None = Field(
        default=None,
        description="One of `offerings`, which says the rest. Without those a name of your own for this entry, needed where a "
        "fleet has several of one infrastructure: `spot`.",
    )

    @property
    def key(self) -> str:
        """Return its name among those of its fleet: ``aws``, or with its offering ``aws/spot``."""
        return self.name if self.offering is None else f"{self.name}/{self.offering}"


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
    offering: OfferingNames = Field(
        default=(),
        description="Instead of `infrastructures`: one of `offerings`, or several in order of preference. Each is asked for "
        "on all infrastructures that have it, before the next.",
    )
    shape: Shape = Field(
        description="What each node has; where an offering says it, what that says.",
        json_schema_extra={"without": "offering"},
    )
    features: Features = Field(
        default=(), description="Words that jobs can ask for with `--constraint`, beside the name."
    )
    infrastructures: tuple[Annotated[Infrastructure, BeforeValidator(read_name)], ...] = Field(
        default=(Infrastructure(name="local"),),
        min_length=1,
        description="Where its machines come from, in order of preference: names, or more details as below. Where the first "
        "has none, the next is asked; a node stays where it was made.",
    )
    image: ImageName | None = Field(default=None, description="Another image than the cluster's.")
    slurm_version: SlurmRelease | None = Field(
        default=None, description="The release of Slurm in that image, where it is older than the cluster's."
    )
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

    @field_validator("infrastructures")
    @classmethod
    def _each_once(cls, entries: tuple[Infrastructure, ...]) -> tuple[Infrastructure, ...]:
        keys = [entry.key for entry in entries]
        if twice := sorted({key for key in keys if keys.count(key) > 1}):
            raise ValueError(
                f"{', '.join(twice)} stands here twice; give each an `offering`, a name of its own"
            )
        return entries

    def slots(self) -> tuple[Slot, ...]:
        return tuple(slots(self.name, self.subnet, self.max_nodes))

    def infrastructure(self, key: str) -> Infrastructure:
        return {entry.key: entry for entry in self.infrastructures}[key]

    def only_on(self, entry: Infrastructure) -> Fleet:
        """The fleet as if ``entry`` were the only one of its infrastructures."""
        return self.model_copy(update={"infrastructures": (entry,)})

    def boot_name(self, entry: Infrastructure) -> str:
        """Return the name of the boot of its machines there: ``cpu``, or with the entry's offering ``cpu.spot``."""
        return self.name if entry.offering is None else f"{self.name}.{entry.offering}"

    def most_nodes(self, entry: Infrastructure) -> int:
        return self.max_nodes if entry.max_nodes is None else min(self.max_nodes, entry.max_nodes)
