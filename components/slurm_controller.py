"""SlurmController: the cluster's own machines, its keys, and the configuration that all of them live by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, TypeVar, Unpack
from zlib import crc32

import pulumi
from pulumi import Input, Output
from pydantic import ValidationError

from tidepool import resources
from tidepool.cluster import addresses, hostlist
from tidepool.cluster.accounting import SHARING
from tidepool.cluster.accounts import Account, Qos
from tidepool.cluster.controller_programs import absent_state
from tidepool.cluster.files import FileServer, HomeFolders, Scratch
from tidepool.cluster.firewall import Firewall
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.names import (
    ACCOUNTING_HOST,
    BACKUP_CONTROLLER_HOST,
    CONTROLLER_HOST,
    FILE_SERVER_HOST,
)
from tidepool.cluster.offering import Offering
from tidepool.cluster.part import Network, Part
from tidepool.cluster.pool import ConvergedPool, Kubernetes
from tidepool.cluster.run_service import RunService
from tidepool.cluster.scaling import Scaling
from tidepool.cluster.shape import Shape
from tidepool.cluster.slots import Slot
from tidepool.cluster.slurm_conf import (
    Fleetlike,
    configuration,
    names_slots,
)
from tidepool.cluster.spec import ClusterSpec, Controller, Limits, Partition
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.cluster.users import Directory, Group, User, UserList
from tidepool.components.boots import Keys, accounting_boot, controller_boot, login_boot, slurmctld_boot
from tidepool.components.file_server import file_server_boot, served_by
from tidepool.components.locations import Locations, register_locations
from tidepool.components.scratch import has_files, scratch_mounts
from tidepool.components.shared_accounting import database_client, database_server, shared_key
from tidepool.components.user_directory import list_users
from tidepool.infrastructures.contract import Boot, Machine, MachineOrder, Mount, VolumeOrder

#: The smallest network whose default subnets are /24, and into how many parts a smaller one falls.
_DEFAULT_PREFIX: Final = 24
_LEAST_BITS: Final = 4

_Part = TypeVar("_Part", Fleet, ConvergedPool)


class FleetArgs(Fleet):
    """A fleet of a program: a `tidepool.cluster.spec.Fleet` that may leave out its subnet, and a shape that is its offering's.

    The default subnet follows from the cluster's network and the fleet's name, so that it stays when fleets come, go
    or change their order: a part of the network of /24 (of a network that is smaller than /20, a sixteenth).
    """

    subnet: Network | None = None  # type: ignore[assignment]
    shape: Shape | None = None  # type: ignore[assignment]


class PoolArgs(ConvergedPool):
    """A pool of a program: a `tidepool.cluster.pool.ConvergedPool` that may leave out what a fleet may."""

    subnet: Network | None = None  # type: ignore[assignment]
    shape: Shape | None = None  # type: ignore[assignment]


class ClusterKeys(TypedDict, total=False):
    """Keys of a `ClusterSpec` but its name, as programs write them; ``network`` must be there."""

    network: str | IPv4Network
    slurm_version: str
    image: str
    controller: Controller
    fleets: Sequence[Fleet]
    pools: Sequence[ConvergedPool]
    kubernetes: Kubernetes | None
    infrastructures: Mapping[str, Mapping[str, Any]]
    offerings: Sequence[Offering]
    partitions: Sequence[Partition]
    users: Sequence[User]
    groups: Sequence[Group]
    directory: Directory | None
    accounts: Sequence[Account]
    qos: Sequence[Qos]
    firewall: Firewall
    home: HomeFolders
    scratch: Scratch | None
    file_server: FileServer | None
    limits: Limits
    scaling: Scaling
    first_boot: str | None
    run_service: RunService | None
    process_tracking: Literal["linuxproc", "cgroup"]
    topology: Literal["flat", "tree"]
    slurm_conf: Mapping[str, str | int | float | bool]
    cgroup_conf: Mapping[str, str | int | float | bool]


def cluster_spec(name: str, **keys: Unpack[ClusterKeys]) -> ClusterSpec:
    """Return the spec of a cluster: one partition ``main`` with all fleets, unless ``partitions`` says otherwise.

    Raises:
        pulumi.RunError: it has mistakes; names all of them, with their remedies.
    """
    try:
        network = IPv4Network(keys.get("network", ""))
        fleets, pools = keys.get("fleets", ()), keys.get("pools", ())
        placed = _with_subnets(network, [*fleets, *pools])
        given = {
            "partitions": [{"name": "main"}],
            **{key: _plain(value) for key, value in keys.items()},
            "name": name,
            "network": str(network),
            "fleets": placed[: len(fleets)],
            "pools": placed[len(fleets) :],
        }
        return read_spec(given)
    except (SpecError, ValidationError, ValueError) as error:
        raise pulumi.RunError(f"cluster {name}: {error}") from None


def _with_subnets(network: IPv4Network, fleets: Iterable[Fleet | ConvergedPool]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    by_default: dict[IPv4Network, str] = {}
    for fleet in fleets:
        written = _plain(fleet)
        if written.get("subnet") is None:
            subnet = default_subnet(network, fleet.name)
            if subnet in by_default:
                raise ValueError(
                    f"{by_default[subnet]} and {fleet.name} have the same default subnet, {subnet}: give one of them a "
                    "`subnet` of its own"
                )
            by_default[subnet] = fleet.name
            written["subnet"] = str(subnet)
        found.append(written)
    return found


def default_subnet(network: IPv4Network, fleet: str) -> IPv4Network:
    """Return the subnet of a fleet of that name which says none."""
    prefix = max(_DEFAULT_PREFIX, network.prefixlen + _LEAST_BITS)
    own = addresses.OwnAddresses(network).range
    free = [each for each in network.subnets(new_prefix=prefix) if not each.overlaps(own)]
    return free[crc32(fleet.encode()) % len(free)]


def _plain(value: Any) -> Any:
    """Return models as the mappings that a spec is read from, with the keys that were given."""
    if isinstance(value, Part):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


#: Host name of the login machine 1, and so on.
_LOGIN_HOST: Final = "login-{}"


class SlurmController(pulumi.ComponentResource):
    """The machine `ctl` of slurmctld and those beside it: login machines, a backup controller, slurmdbd's.

    Its slurm.conf is for the fleets that it is given, and for no others:

        controller = SlurmController(
            "physics", network="10.80.0.0/16", fleets=[FleetArgs(name="cpu", max_nodes=8, shape=Shape(cpus=4, memory_mib=8192))]
        )

    A change of Slurm's configuration changes ``configuration`` alone: no machine boots for it, and jobs go on.

    Args:
        name: the cluster's, where no ``spec`` says it.
        spec: the whole cluster, instead of ``keys``.
        nodes: by fleet the nodes that should be there, where slurm.conf has slots: it has those above `max_nodes` as well.
        accounting_key: the key of another cluster's slurmdbd, in base64, where the spec names one.
        known_users: who may log in, where a directory was read already; by default whom the spec names or its directory has.
        locations: networks and images that are registered already, instead of ``scope`` and ``folder``.
        scope: sets the cluster's resources apart from those of other clusters in the same program.
        folder: where recipes of images and playbooks are looked for first; by default where the program runs.
        opts: Pulumi's.
        keys: those of a `ClusterSpec`; ``network`` must be among them, all others have defaults (`cluster_spec`).
    """

    spec: ClusterSpec
    """The whole cluster."""
    locations: Locations
    """Infrastructures, networks and images of the cluster."""
    connection: Output[Mapping[str, Any]]
    """How the machine of slurmctld is reached."""
    logins: Mapping[str, Output[Mapping[str, Any]]]
    """How the login machines are reached, by name."""
    public_key: Output[str]
    """The stack's SSH key, by which root logs in; in OpenSSH's form."""
    private_key: Output[str]
    """The same, secret."""
    keys: Keys
    """Keys that every machine of the cluster has."""
    home: Output[str]
    """The volume of /home."""
    scratch: tuple[Mount, ...]
    """Where machines of the controller's infrastructure have scratch; empty where there is none."""
    hosts: tuple[str, ...]
    """Host names that slurmd asks for its configuration, the first in charge."""
    pool_controllers: Mapping[str, Boot]
    """By its name, more of the boot of the pool's machine that runs slurmctld; empty where `ctl` is in charge."""
    known_users: UserList
    """Who may log in."""
    users: resources.Users
    """Who may log in, on the volume of /home."""
    file_server: Machine | None
    """The machine that serves /home and scratch; None where the cluster has none of its own."""
    configuration: resources.Configuration
    """Slurm's files on all machines, on which slots and nodes depend."""
    accounting_machine: pulumi.Resource | None
    """The machine with which accounts go: slurmdbd's, or slurmctld's where slurmdbd is another cluster's; None without accounting."""
    accounting_server: Output[Mapping[str, Any]] | None
    """How the machine of slurmdbd is reached; None where the cluster has none."""
    names_slots: bool
    """True where slurm.conf has the slots; else each fleet tells Slurm of its own."""
    slot_state: Literal["FUTURE", "CLOUD"]
    """State of a slot whose node is not there."""

    def __init__(
        self,
        name: str,
        spec: ClusterSpec | None = None,
        *,
        known_users: UserList | None = None,
        nodes: Mapping[str, HostSet] = FrozenDict(),
        accounting_key: str | None = None,
        locations: Locations | None = None,
        scope: str = "",
        folder: Path | None = None,
        opts: pulumi.ResourceOptions | None = None,
        **keys: Unpack[ClusterKeys],
    ) -> None:
        given = spec or (locations and locations.spec)
        if given is not None and keys:
            raise pulumi.RunError(
                f"SlurmController {name}: it has a spec, and {', '.join(sorted(keys))} besides; write them into the spec"
            )
        self.spec = spec = given or cluster_spec(name, **keys)
        self.locations = locations or register_locations(spec, scope, folder)
        super().__init__("tidepool:components:SlurmController", name, None, self.locations.options(opts))
        self._infrastructure = self.locations.own.infrastructure
        self._mine = pulumi.ResourceOptions(parent=self)
        self.known_users = list_users(spec) if known_users is None else known_users
        self.names_slots = names_slots(spec)
        self._files = configuration(spec, nodes)
        self.slot_state = absent_state(spec)
        munge = resources.MungeKey(name, opts=self._mine)
        ssh = resources.SshKey(name, opts=self._mine)
        self.public_key, self.private_key = ssh.public_key, Output.secret(ssh.private_key)
        self._shared = shared_key(spec, accounting_key, self._mine)
        self.keys = Keys(Output.secret(munge.key), self.public_key, self._shared.key)
        self.home = self._volume("home", retain=True)
        self.scratch = scratch_mounts(spec, self._volume)
        self.file_server = self._file_server()

        # A pool's machine has Slurm's files from where `ctl` has them: it is made when these are there already.
        on = spec.controller_slot
        settings = None if on is None else self._volume("slurm")
        state = self._volume("slurmctld")
        self.pool_controllers = {}
        if on is not None:
            boot = slurmctld_boot(state=state, settings=settings, is_alone=False, role="slurm")
            self.pool_controllers = {on.node_name: boot}
        controllers = self._controllers(state, settings)
        accounting = self._accounting()
        logins = self._logins()
        self.hosts = (*self.pool_controllers, *controllers)
        self.connection = controllers[CONTROLLER_HOST].connection
        asked = database_client(name, spec, self.connection, accounting_key, self._mine)
        held_by = accounting or ((controllers[CONTROLLER_HOST],) if asked else ())
        self.accounting_machine = held_by[0].resource if held_by else None
        self.logins = {host: machine.connection for host, machine in logins.items()}
        self.users = resources.Users(
            name,
            controller=self.connection,
            logins=list(self.logins.values()),
            users={each.name: each.to_inputs() for each in self.known_users.users},
            groups={each.name: each.gid for each in self.known_users.groups},
            opts=self._mine,
        )
        configured = (*controllers.values(), *logins.values())
        self.configuration = resources.Configuration(
            name,
            hosts=[machine.connection for machine in configured],
            files=self._files,
            # slurmctld asks slurmdbd for its accounts when it starts.
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=[each for each in (self.accounting_machine, asked) if each]
            ),
        )
        self.accounting_server = accounting[0].connection if accounting else None
        if accounting and self.keys.accounting is not None:
            needed = [self.configuration, accounting[0].resource]
            database_server(
                name, spec, accounting[0].connection, pulumi.ResourceOptions(parent=self, depends_on=needed)
            )
        self.register_outputs(
            {
                "connection": self.connection,
                "logins": dict(self.logins),
                "publicKey": self.public_key,
                "privateKey": self.private_key,
                "mungeKey": self.keys.munge,
            }
        )

    def register_slots(
        self,
        fleet: Fleetlike,
        slots: Sequence[Slot],
        state: Literal["FUTURE", "CLOUD"],
        parent: pulumi.Resource,
    ) -> resources.Slots:
        """Register ``slots`` of ``fleet`` in Slurm, in the order of their numbers, below ``parent``."""
        shape = fleet.shape
        sockets, cores_per_socket, threads_per_core = shape.layout
        return resources.Slots(
            fleet.name,
            controller=self.connection,
            names=hostlist.fold(slot.node_name for slot in slots),
            addresses=hostlist.fold(str(slot.address) for slot in slots),
            cpus=shape.cpus,
            sockets=sockets,
            cores_per_socket=cores_per_socket,
            threads_per_core=threads_per_core,
            memory_mib=shape.memory_mib,
            # Node sets find a fleet's nodes by its name.
            features=[fleet.name, *fleet.features],
            gres=",".join(map(str, shape.gres)),
            state=state,
            configured=self.names_slots,
            opts=pulumi.ResourceOptions(parent=parent, depends_on=[self.configuration]),
        )

    def _controllers(self, state: Input[str], settings: Input[str] | None) -> dict[str, Machine]:
        """Register the controllers, by host name. A backup shares slurmctld's state, and takes over with all jobs."""
        places = self.spec.own_addresses
        shape = self.spec.controller.shape
        boot = self._infrastructure.boot(
            CONTROLLER_HOST,
            controller_boot(
                self.keys,
                state=state,
                home=self.home,
                settings=settings,
                is_alone=settings is None and not self.spec.controller.backup,
                configuration=self._files,
                scratch=self.scratch,
                has_files=has_files(self.spec, self.known_users),
                has_run=self.spec.run_service is not None,
            ),
            self._mine,
        )
        made = {CONTROLLER_HOST: self._machine(CONTROLLER_HOST, places.controller, shape, boot)}
        if self.spec.controller.backup:
            host = BACKUP_CONTROLLER_HOST
            made[host] = self._machine(host, places.backup_controller, shape, boot)
        return made

    def _accounting(self) -> tuple[Machine, ...]:
        accounting = self.spec.controller.own_accounting
        if accounting is None:
            return ()
        # It is the history of years: a cluster that is made again goes on with it.
        boot = self._infrastructure.boot(
            ACCOUNTING_HOST,
            accounting_boot(self.keys, accounting=accounting, database=self._volume("database", retain=True)),
            self._mine,
        )
        address = self.spec.own_addresses.accounting
        # A slurmctld that starts before slurmdbd answers ends, or does not register its cluster.
        return (self._machine(ACCOUNTING_HOST, address, accounting.shape, boot, wait_ready=True),)

    def _file_server(self) -> Machine | None:
        server = self.spec.file_server
        if server is None:
            return None
        boot = self._infrastructure.boot(
            FILE_SERVER_HOST,
            file_server_boot(self.keys, self.spec, served_by(self._infrastructure, self.home, self.scratch)),
            self._mine,
        )
        image = self.locations.own.images[self.spec.file_server_image]
        order = MachineOrder(
            FILE_SERVER_HOST,
            self.locations.own.network,
            self.spec.own_addresses.file_server,
            server.shape,
            image,
            boot,
            wait_ready=True,
        )
        return self.locations.own.infrastructure.machine(order, self._mine)

    def _logins(self) -> dict[str, Machine]:
        spec = self.spec
        if not spec.controller.login_machines:
            return {}
        shape, limits = spec.controller.shape, spec.controller.login_limits
        cpus, memory_mib = limits.cpus or shape.cpus / 2, limits.memory_mib or shape.memory_mib // 2
        boot = self._infrastructure.boot(
            "login",
            login_boot(self.keys, home=self.home, cpus=cpus, memory_mib=memory_mib, scratch=self.scratch),
            self._mine,
        )
        hosts = {
            _LOGIN_HOST.format(number): spec.own_addresses.login(number)
            for number in range(1, spec.controller.login_machines + 1)
        }
        return {host: self._machine(host, address, shape, boot) for host, address in hosts.items()}

    def _machine(
        self, host: str, address: IPv4Address, shape: Shape, boot: Input[str], wait_ready: bool = False
    ) -> Machine:
        own = self.locations.own
        image = own.images[self.spec.controller_image]
        order = MachineOrder(host, own.network, address, shape, image, boot, wait_ready)
        # Who mounts what it serves is there after it, and gone before it.
        served = [self.file_server.resource] if self.file_server else []
        opts = pulumi.ResourceOptions(parent=self, depends_on=served)
        if self.spec.controller.infrastructure.name in SHARING:
            opts.replacement_trigger, opts.delete_before_replace = self._shared.trigger, True
        return own.infrastructure.machine(order, opts)

    def _volume(self, name: str, retain: bool = False) -> Output[str]:
        return self._infrastructure.volume(VolumeOrder(name, retain), self._mine)


def known_part(
    component: str, spec: ClusterSpec, what: Literal["fleet", "pool"], parts: Iterable[_Part], name: str
) -> _Part:
    """Return the fleet or the pool of that name; RunError where the configuration of the controller has none."""
    known = {part.name: part for part in parts}
    if name in known:
        return known[name]
    raise pulumi.RunError(
        f"{component} {name}: the configuration of the controller {spec.name} has no such {what}; its {what}s are: "
        f"{', '.join(known) or 'none'}. Give it to the controller: "
        f'SlurmController("{spec.name}", {what}s=[{what.capitalize()}Args(name="{name}", ...)])'
    )
