"""`ClusterSpec`: what a cluster should be, as a person says it in ``Pulumi.<stack>.yaml``. Frozen, in all its parts.

`tidepool.cluster.spec_reading` reads it from the plain mapping that stands there, and tells of all mistakes at
once. Built in Python, the models check the same things and raise pydantic's ValidationError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

from tidepool.cluster import addresses, spec_checks
from tidepool.cluster.accounting import Accounting, peers_of
from tidepool.cluster.accounts import Account, Qos
from tidepool.cluster.files import FileServer, HomeFolders, Scratch
from tidepool.cluster.firewall import Firewall
from tidepool.cluster.fleet import Fleet, Infrastructure, InfrastructureName, OfferingName
from tidepool.cluster.flows import Flow, Forward, Peer, flows, forwards
from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.names import (
    ACCOUNTING_HOST,
    BACKUP_CONTROLLER_HOST,
    CONTROLLER_HOST,
    FILE_SERVER_HOST,
    cluster_name,
    partition_name,
)
from tidepool.cluster.offering import Offering
from tidepool.cluster.offerings import catalogue, expanded
from tidepool.cluster.part import (
    ImageName,
    Network,
    Options,
    Part,
    SlurmRelease,
    SlurmTime,
    Whole,
    read_name,
    script,
)
from tidepool.cluster.pool import ConvergedPool, Kubernetes
from tidepool.cluster.roles import ROLES, Role
from tidepool.cluster.run_service import RunService
from tidepool.cluster.scaling import Scaling
from tidepool.cluster.shape import Shape, mebibytes
from tidepool.cluster.slots import Slot
from tidepool.cluster.users import RESEARCHER, Directory, Group, User

#: Infrastructures whose machines can make control groups, by which slurmd confines jobs: `docs/confinement.md`.
CONFINING: Final = frozenset({"aws", "cloudstack", "ironic", "libvirt", "local", "metal", "ssh"})


class Partition(Part):
    """A queue that jobs are submitted to."""

    name: Annotated[str, AfterValidator(partition_name)] = Field(description="What `sbatch -p` says.")
    fleets: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="The names of the fleets and pools whose nodes are in it. By default, all.",
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


class LoginLimits(Part):
    """The most that all sessions of a user on a login machine have together; by default half of the machine."""

    cpus: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Processors, of which there may be a part: `0.5`.",
    )
    memory_mib: Annotated[Whole, BeforeValidator(mebibytes)] | None = Field(
        default=None, validation_alias="memory", ge=16, description="Memory, in MiB or with a unit: `2GiB`."
    )


class Controller(Part):
    """The machines that are the cluster's own: slurmctld's, and those beside it."""

    offering: OfferingName | None = Field(
        default=None,
        description="One of `offerings`: the shape, the price, and what these machines are on their infrastructure.",
    )
    shape: Shape = Field(
        default=Shape(cpus=2, memory_mib=2048), description="What the machine of slurmctld has."
    )
    infrastructure: Annotated[Infrastructure, BeforeValidator(read_name)] = Field(
        default=Infrastructure(name="local"), description="Where the cluster's own machines come from."
    )
    runs_on: str | None = Field(
        default=None,
        description="A machine of a pool, as `shared-1`, that runs slurmctld while it serves Slurm, and is in charge then. `ctl` "
        "stands by, and takes over before it leaves. By default `ctl` is in charge.",
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
    login_limits: LoginLimits = Field(
        default=LoginLimits(),
        description="What a user can take of a login machine, where machines can make control groups.",
    )
    image: ImageName | None = Field(default=None, description="Another image than the cluster's.")

    @property
    def own_accounting(self) -> Accounting | None:
        """The accounting database that is on a machine of the cluster's own; None where there is none, or another cluster's."""
        return self.accounting if self.accounting is not None and self.accounting.host is None else None


class Limits(Part):
    """Limits that the scaler never goes beyond, whatever waits in the queue."""

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


@dataclass(frozen=True, slots=True)
class SiteOptions:
    """Options, and where a person writes them."""

    path: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FleetEntry:
    """An infrastructure of a fleet, and where it stands: ``fleets[0].infrastructures[1]``. Or of a pool, as a fleet.

    ``options_path`` is where a person wrote its options: there, or with the offering that it is.
    """

    path: str
    options_path: str
    fleet: Fleet
    entry: Infrastructure

    @property
    def least_key(self) -> str:
        """The key that says how many machines there are at least."""
        return "machines" if self.path.startswith("pools") else "min_nodes"


class ClusterSpec(Part):
    """One cluster: one department's, in one Pulumi stack."""

    name: Annotated[str, AfterValidator(cluster_name)] = Field(
        description="The cluster's name. Slurm's ClusterName."
    )
    network: Network = Field(
        description="The private network that the cluster has to itself. Its first "
        f"{addresses.OWN_PLACES} addresses are for the cluster's own machines, the rest is for fleets and pools."
    )
    slurm_version: SlurmRelease = Field(
        default="22.05",
        description="The release of Slurm that the images hold, of those that Tidepool was run with. Keys of Slurm's files are checked against it.",
    )
    image: ImageName = Field(
        default="debian-12", description="The golden image of all machines that name no other."
    )
    controller: Controller = Field(default=Controller(), description="The cluster's own machines.")
    fleets: tuple[Fleet, ...] = Field(default=(), description="The nodes that there can be, by their kinds.")
    pools: tuple[ConvergedPool, ...] = Field(
        default=(),
        description="Machines that serve Slurm and Kubernetes in turns. They are there all the time, and no limit on nodes "
        "counts them.",
    )
    kubernetes: Kubernetes | None = Field(
        default=None, description="The Kubernetes that pools serve; `{}` for one of the cluster's own."
    )
    infrastructures: Annotated[
        dict[InfrastructureName, Annotated[dict[str, Any], AfterValidator(frozen)]], AfterValidator(frozen)
    ] = Field(
        default_factory=FrozenDict,
        description="By infrastructure, what it needs to know for the whole cluster: the options that would stand with the "
        "controller, of infrastructures that are not the controller's.",
    )
    offerings: tuple[Offering, ...] = Field(
        default=(),
        description="Machines by names that fleets, pools and the controller can say in place of shapes and options.",
    )
    partitions: tuple[Partition, ...] = Field(
        min_length=1,
        description="The queues that jobs are submitted to; `[{name: main}]` is enough to begin with.",
    )
    users: tuple[User, ...] = Field(
        default=(),
        description=f"Who may log in and submit jobs. Where nobody is named and there is no `directory`: `{RESEARCHER.name}`, of uid {RESEARCHER.uid}.",
    )
    groups: tuple[Group, ...] = Field(default=(), description="Groups that users are in, beside their own.")
    directory: Directory | None = Field(default=None, description="Where more users and groups come from.")
    accounts: tuple[Account, ...] = Field(
        default=(),
        description="Who may use how much, as a tree of accounts in slurmdbd; needs `controller.accounting`.",
    )
    qos: tuple[Qos, ...] = Field(
        default=(),
        description="Qualities of service, beside Slurm's own `normal`; needs `controller.accounting`.",
    )
    firewall: Firewall = Field(
        default=Firewall(),
        description="Who reaches login machines from outside, and what machines reach there; by default nobody, and nothing.",
    )
    home: HomeFolders = Field(default=HomeFolders(), description="What people may use of /home.")
    scratch: Scratch | None = Field(
        default=None, description="A scratch that is wiped by age; `{}` for one as below. None by default."
    )
    file_server: FileServer | None = Field(
        default=None,
        description="A machine `nfs` of the cluster's own that serves /home and scratch by NFS; `{}` for one as below. None by default: machines have them from where the infrastructure has volumes.",
    )
    limits: Limits = Field(default=Limits(), description="What the scaler never goes beyond.")
    scaling: Scaling = Field(default=Scaling(), description="How the scaler works.")
    first_boot: Annotated[str, AfterValidator(script)] | None = Field(
        default=None,
        description="A script, `#!` first, that root runs on each node of a fleet when it boots for the first time, before "
        "slurmd. A node on which it fails takes no job: it is run again until it succeeds.",
    )
    run_service: RunService | None = Field(
        default=None,
        description="The service of runs, by which the cluster of a run ends itself where who began it is gone. Of a cluster that is "
        "not a run's nothing uses it.",
    )
    process_tracking: Literal["linuxproc", "cgroup"] | None = Field(
        default=None,
        description="How slurmd follows the processes of a job. With `cgroup` a job holds to its memory, its processors and its "
        "devices, and what takes too much memory is killed alone; it needs machines that "
        f"make control groups, and is the default where all nodes are of {', '.join(sorted(CONFINING))}. `linuxproc` needs nothing, "
        "confines nothing, and loses what leaves its session.",
    )
    topology: Literal["flat", "tree"] = Field(
        default="flat",
        description="Whether Slurm knows which nodes are near each other: `tree` makes each fleet a switch.",
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

    @model_validator(mode="before")
    @classmethod
    def _with_offerings(cls, spec: Any) -> Any:
        return expanded(spec) if isinstance(spec, Mapping) else spec

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        if found := spec_checks.disagreements(self.model_dump()):
            raise ValueError("\n".join(map(str, found)))
        return self

    @property
    def own_addresses(self) -> addresses.OwnAddresses:
        return addresses.OwnAddresses(self.network)

    @property
    def own_hosts(self) -> Mapping[str, IPv4Address]:
        """The cluster's own machines that are there, by name."""
        own = self.controller
        return self._own_hosts(
            backup=own.backup,
            accounting=own.own_accounting is not None,
            logins=own.login_machines,
            files=self.file_server is not None,
        )

    @property
    def possible_own_hosts(self) -> Mapping[str, IPv4Address]:
        """All that the cluster's own machines can be, by name: the same whichever of them are there."""
        return self._own_hosts(backup=True, accounting=True, logins=addresses.MOST_LOGIN_MACHINES)

    def _own_hosts(
        self, *, backup: bool, accounting: bool, logins: int, files: bool = False
    ) -> Mapping[str, IPv4Address]:
        places = self.own_addresses
        own = {CONTROLLER_HOST: places.controller}
        if backup:
            own[BACKUP_CONTROLLER_HOST] = places.backup_controller
        if accounting:
            own[ACCOUNTING_HOST] = places.accounting
        if files:
            own[FILE_SERVER_HOST] = places.file_server
        return {**own, **self._login_hosts(logins)}

    @property
    def login_hosts(self) -> Mapping[str, IPv4Address]:
        """The login machines that are there, by name."""
        return self._login_hosts(self.controller.login_machines)

    def _login_hosts(self, count: int) -> Mapping[str, IPv4Address]:
        return {f"login-{number}": self.own_addresses.login(number) for number in range(1, count + 1)}

    @property
    def flows(self) -> tuple[Flow, ...]:
        """The flows that machines may open outside of the cluster's network."""
        nodes = [*(fleet.subnet for fleet in self.fleets), *(pool.subnet for pool in self.pools)]
        return flows(self.firewall, nodes, list(self.login_hosts.values()), self.controller_addresses)

    @property
    def controller_addresses(self) -> tuple[IPv4Address, ...]:
        """The addresses of the machines of slurmctld that are the cluster's own."""
        places = self.own_addresses
        return (places.controller, *((places.backup_controller,) if self.controller.backup else ()))

    @property
    def forwards(self) -> tuple[Forward, ...]:
        """The ports by which login machines are reached, where they have no address of their own outside."""
        return forwards(self.firewall, list(self.login_hosts.values()))

    @property
    def peers(self) -> tuple[Peer, ...]:
        """The networks of other clusters that share its slurmdbd, or whose slurmdbd it uses."""
        return peers_of(self.controller.accounting, self.own_addresses)

    @property
    def controller_slot(self) -> Slot | None:
        """That of the pool's machine which runs slurmctld; None where no pool's does."""
        slots = (slot for pool in self.pools for slot in pool.slots())
        return next((slot for slot in slots if slot.node_name == self.controller.runs_on), None)

    @property
    def controller_image(self) -> str:
        return self.controller.infrastructure.image or self.controller.image or self.image

    @property
    def file_server_image(self) -> str:
        """The image of the file server; that of the controller with ``-nfs``, unless another one is named."""
        server = self.file_server
        return server.image if server is not None and server.image else f"{self.controller_image}-nfs"

    def fleet_image(self, fleet: Fleet, infrastructure: Infrastructure) -> str:
        return infrastructure.image or fleet.image or self.image

    @property
    def confines_jobs(self) -> bool:
        """Return whether slurmd follows jobs by control groups."""
        if self.process_tracking is not None:
            return self.process_tracking == "cgroup"
        return self.node_infrastructures <= CONFINING

    @property
    def node_infrastructures(self) -> frozenset[str]:
        """The infrastructures of its nodes."""
        return frozenset(entry.name for fleet in self.all_fleets for entry in fleet.infrastructures)

    @property
    def all_fleets(self) -> tuple[Fleet, ...]:
        """Its fleets, and as such its pools, as infrastructures have them."""
        return (*self.fleets, *map(self.pool_fleet, self.pools))

    def pool_fleet(self, pool: ConvergedPool) -> Fleet:
        """Return the fleet that a pool is to the infrastructure of its machines."""
        return pool.as_fleet(self.controller.infrastructure.name)

    def pool_infrastructure(self, pool: ConvergedPool) -> InfrastructureName:
        """Return the name of the infrastructure of a pool's machines."""
        return (pool.infrastructure or self.controller.infrastructure).name

    @property
    def confining_controllers(self) -> tuple[str, ...]:
        """The controllers of control groups by which slurmd confines jobs; none where it does not."""
        if not self.confines_jobs:
            return ()
        shapes = [*(fleet.shape for fleet in self.fleets), *(pool.shape for pool in self.pools)]
        has_devices = any(gres.files for shape in shapes for gres in shape.gres)
        return ("freezer", "memory", "cpuset", *(("devices",) if has_devices else ()))

    @property
    def infrastructure_names(self) -> tuple[InfrastructureName, ...]:
        """The infrastructures of all its machines, each once: the controller's first."""
        names = [entry.name for fleet in self.all_fleets for entry in fleet.infrastructures]
        return tuple(dict.fromkeys([self.controller.infrastructure.name, *names]))

    def site_options(self, name: str) -> SiteOptions:
        """Return what is said of an infrastructure for the whole cluster: with the controller, or apart."""
        if self.controller.infrastructure.name == name:
            return SiteOptions("controller.infrastructure.options", self.controller.infrastructure.options)
        return SiteOptions(f"infrastructures.{name}", self.infrastructures.get(name, FrozenDict()))

    def entries(self, name: str) -> Iterator[FleetEntry]:
        """Yield the entries of fleets and pools that name an infrastructure, in order."""
        for i, fleet in enumerate(self.fleets):
            for j, entry in enumerate(fleet.infrastructures):
                if entry.name == name:
                    path = f"fleets[{i}].infrastructures[{j}]"
                    yield FleetEntry(path, self._options_path(path, entry.offering, entry), fleet, entry)
        for i, pool in enumerate(self.pools):
            fleet = self.pool_fleet(pool)
            (entry,) = fleet.infrastructures
            if entry.name == name:
                path = f"pools[{i}].infrastructure"
                yield FleetEntry(path, self._options_path(path, pool.offering, entry), fleet, entry)

    def _options_path(self, path: str, offering: str | None, entry: Infrastructure) -> str:
        """Return where the options of an entry at ``path`` were written; its own where it says any beside its offering's."""
        known = catalogue({"offerings": self.offerings})
        found = known.offering(offering) if offering is not None else None
        if (
            found is None
            or found.on(entry.name) is None
            or found.entry(entry.name)["options"] != entry.options
        ):
            return f"{path}.options"
        return known.options_path(found.name, entry.name)

    def images_on(self, name: str) -> tuple[str, ...]:
        """The names of the images that machines of one infrastructure are made from, each once, in order."""
        used = {self.fleet_image(found.fleet, found.entry) for found in self.entries(name)}
        for pool in self.pools:
            if self.pool_infrastructure(pool) == name:
                used |= {pool.image_of(role) for role in ROLES}
        if self.controller.infrastructure.name == name:
            used.add(self.controller_image)
            used |= {self.file_server_image} if self.file_server else set()
        return tuple(sorted(used))

    @property
    def images(self) -> tuple[str, ...]:
        return tuple(sorted({each for name in self.infrastructure_names for each in self.images_on(name)}))

    def roles_of(self, image: str) -> tuple[Role, ...]:
        """The roles that an image has to hold: those for which machines of a pool are made from it."""
        return tuple(role for role in ROLES if any(pool.image_of(role) == image for pool in self.pools))

    def fleet(self, name: str) -> Fleet:
        return {fleet.name: fleet for fleet in self.fleets}[name]

    def pool(self, name: str) -> ConvergedPool:
        return {pool.name: pool for pool in self.pools}[name]
