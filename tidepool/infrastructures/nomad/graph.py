"""Hosts that run Nomad as an infrastructure: Slurm's daemons as jobs, by the resources of pulumi-nomad.

Hosts are there already. The cluster's own machines are on hosts that a person names, as services; a fleet is a system job
whose constraint is metadata of hosts, and a machine of it is a host that is given that metadata (tidepool:nomad:Machine).
Keys are in variables of Nomad, which the tasks of one job alone can read, and templates bring them to it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from typing import Any, ClassVar, Final

import pulumi
import pulumi_nomad as nomad
from pulumi import Input, Output, ResourceOptions

from tidepool.cluster.boot import Mount, Service
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.names import CONTROLLER_HOST
from tidepool.cluster.roles import MUNGE_KEY
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.user_files import KEYS
from tidepool.infrastructures import contract
from tidepool.infrastructures.cloud_init import hosts_file
from tidepool.infrastructures.contract import Boot, File, Infrastructure, MachineOrder, VolumeOrder
from tidepool.infrastructures.nomad import jobs
from tidepool.infrastructures.nomad.api import ApiLocation, read_token
from tidepool.infrastructures.nomad.jobspec import Job, written
from tidepool.infrastructures.nomad.machine import Machine, MachineFile, item_of
from tidepool.infrastructures.nomad.options import Offering
from tidepool.infrastructures.nomad.preflight import Demands, demands
from tidepool.infrastructures.nomad.reading import Options, label, own_boots, read_options
from tidepool.infrastructures.nomad.resources import NomadMachine, RollOut
from tidepool.infrastructures.remote import Ssh, ssh
from tidepool.resources.declarations import preflight
from tidepool.resources.model import to_wire

#: What a boot calls the daemons that are otherwise here: one is a job for all, and one must not be in the host's way.
_MUNGED: Final = "munged"
_SSHD: Final = "sshd"
_HOST_KEY: Final = "/etc/ssh/ssh_host_ed25519_key"
_ROOTS: Final = "/root/.ssh/authorized_keys"
_ADMINISTRATOR: Final = "/etc/ssh/administrator.d/root"
#: What Nomad takes in one variable, with room for what is around it.
_VARIABLE_BYTES: Final = 60_000


def make(spec: ClusterSpec, stack: str) -> Infrastructure:
    """The infrastructure of that spec's machines; registers what is asked before, and what runs beside Slurm.

    Raises:
        Permanent: the token cannot be read.
    """
    options = read_options(spec)
    place = options.place
    token, location = read_token(place.token_file, os.environ), ApiLocation.of(place)
    api = to_wire(location)
    demanded = Demands(location, place.namespace, stack, demands(spec, options))
    asked = preflight("nomad", "nomad", options.path, demanded)
    provider = nomad.Provider(
        "nomad",
        address=place.address,
        region=place.region,
        ca_file=place.ca_file,
        secret_id=Output.secret(token) if token else None,
        # All that is made there waits for what says that it can be.
        opts=ResourceOptions(depends_on=[asked]),
    )
    home = jobs.Home(stack, place, spec.network.prefixlen)
    for container in place.containers:
        _register(container.name, jobs.container_job(home, container), ResourceOptions(provider=provider))
    reached = ssh(spec, stack, place.ssh_port)
    # Who is root on the host is not asked: the machine's own sshd looks elsewhere than in /root, which is the host's.
    ways = [replace(file, path=file.path.replace(_ROOTS, _ADMINISTRATOR)) for file in reached.files]
    ways.append(File("/etc/hosts", hosts_file(spec.own_hosts)))
    return Nomad(home, options, api, provider, reached, tuple(ways), own_boots(spec))


@dataclass(frozen=True, slots=True)
class Nomad:
    """Machines of hosts that run Nomad: the cluster's own, and with ``fleet`` those of a fleet.

    ``ways`` are the files by which machines are reached and reach each other, ``own`` the cluster's own machines with
    their addresses, by boot.
    """

    forms: ClassVar[Sequence[str]] = ()

    home: jobs.Home
    options: Options
    api: Mapping[str, str]
    provider: nomad.Provider
    ssh: Ssh
    ways: tuple[File, ...]
    own: Mapping[str, Mapping[str, str]]
    fleet: str = ""
    offering: Offering | None = None

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        (entry,) = fleet.infrastructures
        offering = self.options.offerings[fleet.name, entry.key]
        return replace(self, fleet=label(fleet.name, entry.offering), offering=offering)

    def image(self, name: str, digest: Input[str]) -> Output[str]:
        """Hosts run what they booted from. Which image that is, their metadata may say, and a fleet ask for."""
        return Output.from_input(digest)

    def network(self, name: str, cidr: IPv4Network) -> Output[str]:
        """It is the hosts' own link; machines have addresses there beside the hosts'."""
        return Output.from_input(name)

    def volume(self, order: VolumeOrder, opts: ResourceOptions | None = None) -> Output[str]:
        """A folder that hosts have, and that nobody here makes or takes away."""
        return Output.from_input(self.home.place.volumes[order.name])

    def boot(self, name: str, boot: Boot, opts: ResourceOptions | None = None) -> Output[str]:
        """The job of all machines that boot so. Another one is rolled out: daemons start anew, some hosts at a time."""
        stack = self.home.stack
        munged = next(each for each in boot.services if each.name == _MUNGED)
        mine = replace(
            boot,
            services=tuple(self._service(each) for each in boot.services if each is not munged),
            files=(*(file for file in boot.files if file.path != MUNGE_KEY), *self.ways),
        )
        home, daemon, offering = self.home, munged, self.offering
        if offering is None:
            job, named, groups = jobs.own_id(stack, name), f"slurm-{name}", tuple(self.own[name])
        else:
            job, named, groups = jobs.fleet_id(stack, self.fleet), f"slurmd-{self.fleet}", ()

        def jobspec(sources: Sequence[str]) -> Job:
            machine = _machine(mine, sources)
            if offering is None:
                return jobs.own_job(home, name, machine, self.own[name], daemon)
            return jobs.fleet_job(home, self.fleet, machine, offering, daemon)

        needs: list[pulumi.Resource] = [self._keys(name, job, mine.files, opts)]
        if offering is not None or name == CONTROLLER_HOST:
            needs.append(self._munge(munged, boot, opts))
        needs += [self._live(group, job, boot.live_files, opts) for group in groups if boot.live_files]
        spec = Output.all(*(mount.source for mount in boot.mounts)).apply(jobspec)
        if offering is not None:
            needs.append(self._roll_out(named, job, spec, self._after(opts, tuple(needs))))
        registered = _register(named, spec, self._opts(opts, depends_on=needs), waits=offering is None)
        return registered.id.apply(lambda _: name)

    def machine(self, order: MachineOrder, opts: ResourceOptions | None = None) -> contract.Machine:
        place, stack = self.home.place, self.home.stack
        if self.offering is None:
            machine_id = Output.from_input(order.boot).apply(
                lambda boot: f"{jobs.own_id(stack, boot)}/{order.name}"
            )
        else:
            fleet = self.fleet
            asked = jobs.required_attributes(self.offering.attributes)
            beside = {each.driver for each in place.containers if each.fleet == fleet}
            machine_id = NomadMachine(
                order.name,
                api=self.api,
                namespace=place.namespace,
                stack=stack,
                machine=order.name,
                fleet=fleet,
                address=str(order.address),
                constraints=[f"{each.left} {each.operand} {each.right}" for each in asked],
                drivers=[jobs.DRIVER, *sorted(beside)],
                datacenters=list(place.datacenters),
                node_pool=place.node_pool,
                # When there are such jobs.
                jobs=Output.from_input(order.boot).apply(
                    lambda _: list(jobs.fleet_jobs(place, stack, fleet))
                ),
                opts=opts,
            ).id
        return self.ssh.machine(order, machine_id, opts)

    def _munge(self, munged: Service, boot: Boot, opts: ResourceOptions | None) -> nomad.Job:
        """One job for the hosts of a fleet, and one for those of all own machines: the key comes with their first boot."""
        key = tuple(file for file in boot.files if file.path == MUNGE_KEY)
        run = tuple(each for each in boot.folders if each.path.startswith("/run/munge"))
        machine = _machine(Boot((munged,), files=key, folders=run), ())
        job = jobs.munge_job(self.home, machine, self.fleet, self.offering)
        name = job.id.removeprefix(f"{self.home.stack}-")
        keys = self._keys(name, job.id, key, opts)
        before = self._roll_out(name, job.id, Output.from_input(job), self._after(opts, [keys]))
        return _register(name, job, self._opts(opts, depends_on=[keys, before]))

    def _roll_out(self, name: str, job: str, spec: Output[Job], opts: ResourceOptions) -> RollOut:
        """Register what a system job waits for: a look at how its last version went."""
        version = spec.apply(lambda known: hashlib.sha256(written(known).encode()).hexdigest()[:16])
        namespace = self.home.place.namespace
        return RollOut(name, api=self.api, namespace=namespace, job=job, version=version, opts=opts)

    def _service(self, service: Service) -> Service:
        if service.name != _SSHD:
            return service
        port = self.home.place.ssh_port
        # By its own settings alone: what the host lets in is the host's matter.
        settings = {
            "AuthorizedKeysFile": f"{_ADMINISTRATOR} /etc/ssh/authorized_keys.d/%u {KEYS}/%u",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            "UsePAM": "yes",
            "PidFile": "none",
            # Nomad's check of the port leaves its connections open: without these, ten of them keep people out.
            "LoginGraceTime": "30",
            "MaxStartups": "100",
        }
        told = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        argv = ("/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-p", str(port), "-h", _HOST_KEY, *told)
        return replace(service, argv=argv, ready=f"tcp:{port}")

    def _keys(
        self, name: str, job: str, files: Sequence[File], opts: ResourceOptions | None
    ) -> nomad.Variable:
        """Register what comes from other resources, in a variable that is only written: Nomad is not asked for it again."""
        from_resources = [file for file in files if not isinstance(file.content, str)]
        contents = Output.all(*(file.content for file in from_resources))
        items: Output[str] = contents.apply(
            lambda known: json.dumps(
                {item_of(file): text for file, text in zip(from_resources, known, strict=True)},
                sort_keys=True,
            )
        )
        secret: Output[str] = Output.secret(items)
        return nomad.Variable(
            f"{name}@keys",
            path=jobs.keys_path(job),
            namespace=self.home.place.namespace,
            items_wo=secret,
            # Others are another version. Some bits of a digest of what is random tell nothing of it.
            items_wo_version=Output.unsecret(items.apply(_version)),
            opts=self._opts(opts, delete_before_replace=True),
        )

    def _live(
        self, group: str, job: str, files: Sequence[File], opts: ResourceOptions | None
    ) -> nomad.Variable:
        """Register the files that daemons read again while they run. Where somebody changed them, that is drift."""
        items = {item_of(file): str(file.content) for file in files}
        if (size := sum(map(len, items.values()))) > _VARIABLE_BYTES:
            raise pulumi.RunError(
                f"controller.infrastructure: Slurm's files have {size} bytes, and a variable of Nomad takes "
                f"{_VARIABLE_BYTES}: name fewer fleets and partitions"
            )
        return nomad.Variable(
            f"{group}@live",
            path=jobs.live_path(job, group),
            namespace=self.home.place.namespace,
            items=items,
            opts=self._opts(opts, delete_before_replace=True),
        )

    def _after(self, opts: ResourceOptions | None, needs: Sequence[pulumi.Resource]) -> ResourceOptions:
        return ResourceOptions.merge(opts, ResourceOptions(depends_on=needs))

    def _opts(self, opts: ResourceOptions | None, **more: Any) -> ResourceOptions:
        return ResourceOptions.merge(opts, ResourceOptions(provider=self.provider, **more))


def _register(name: str, job: Input[Job], opts: ResourceOptions, waits: bool = False) -> nomad.Job:
    return nomad.Job(
        name,
        jobspec=Output.from_input(job).apply(written),
        json=True,
        # A service is made when it is well, and an `up` fails with what was taken back. A fleet's hosts take their time.
        detach=not waits,
        # Else it stays, dead, and its name is taken.
        purge_on_destroy=True,
        rerun_if_dead=True,
        opts=opts,
    )


def _machine(boot: Boot, sources: Sequence[str]) -> Machine:
    if of_roles := [service.name for service in boot.services if service.role]:
        raise ValueError(f"the service {of_roles[0]} is of a role, which machines of Nomad do not take")
    return Machine(
        boot.services,
        tuple(_file(file, file.content) for file in boot.files),
        tuple(_file(file, None) for file in boot.live_files),
        boot.folders,
        tuple(
            Mount(source, mount.target, mount.read_only)
            for source, mount in zip(sources, boot.mounts, strict=True)
        ),
    )


def _file(file: File, content: object) -> MachineFile:
    known = content if isinstance(content, str) else None
    return MachineFile(file.path, known, file.mode, file.owner, file.group, file.is_base64)


def _version(items: str) -> int:
    return int(hashlib.sha256(items.encode()).hexdigest()[:7], 16) + 1
