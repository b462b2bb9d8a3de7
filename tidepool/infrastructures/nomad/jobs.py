"""The jobs that a cluster is on Nomad: pure functions from machines to `jobspec.Job`.

- ``STACK-munge`` and ``STACK-munge-FLEET``, system jobs: a munged on each host of the stack.
- ``STACK-slurm-ctl`` and its like, services: a group for each of the cluster's own machines, on the host that has its name.
- ``STACK-slurmd-FLEET``, a system job: a slurmd on each host whose metadata says that it is of the fleet.

Jobs know no order among each other, so whoever needs munged waits for it in a prestart task of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from tidepool.cluster import boot
from tidepool.infrastructures.nomad.jobspec import (
    DISTINCT_HOSTS,
    Constraint,
    Group,
    Job,
    Service,
    Task,
    Template,
    Update,
)
from tidepool.infrastructures.nomad.machine import (
    Machine,
    MachineFile,
    changed_script,
    install_script,
    item_of,
    machine_script,
    port_of,
    run_script,
    wait_script,
)
from tidepool.infrastructures.nomad.options import Attributes, Container, Offering, RollOut, SiteOptions

#: What a host's metadata says of the machine that it is: by these it is given to a fleet, and taken back.
STACK, FLEET, NODE = "tidepool_stack", "tidepool_fleet", "tidepool_node"
#: ``MACHINE`` is new each time that a host becomes a machine.
ADDRESS, MACHINE = "tidepool_address", "tidepool_machine"
#: The last is in the metadata of machines of earlier releases.
META: Final = (STACK, FLEET, NODE, ADDRESS, MACHINE, "tidepool_generation")
#: boot.Services of the machine itself. Programs of the host's, confined to nothing: slurmd gives jobs the whole host.
DRIVER: Final = "raw_exec"
_SH: Final = "/bin/sh"


@dataclass(frozen=True, slots=True)
class Home:
    """Whose jobs these are and where: the stack, its place, and how long the network's prefix is."""

    stack: str
    place: SiteOptions
    prefix: int


def munge_id(stack: str, fleet: str = "") -> str:
    """The id of the job of munged, on the hosts of the cluster's own machines or of a fleet."""
    return f"{stack}-munge-{fleet}" if fleet else f"{stack}-munge"


def own_id(stack: str, boot: str) -> str:
    """The id of the job of the cluster's own machines of that boot: `ctl`, `dbd`, `login`."""
    return f"{stack}-slurm-{boot}"


def fleet_id(stack: str, fleet: str) -> str:
    """The id of the job of a fleet's slurmd."""
    return f"{stack}-slurmd-{fleet}"


def container_id(stack: str, container: Container) -> str:
    """The id of the job of a container beside Slurm."""
    return f"{stack}-{container.name}"


def fleet_jobs(place: SiteOptions, stack: str, fleet: str) -> tuple[str, ...]:
    """The ids of all jobs that are on the hosts of a fleet."""
    beside = (container_id(stack, each) for each in place.containers if each.fleet == fleet)
    return (munge_id(stack, fleet), fleet_id(stack, fleet), *beside)


def keys_path(job: str) -> str:
    """The variable of what a job alone may read. Nomad lets a job's tasks read those below its id, and no others."""
    return f"nomad/jobs/{job}"


def live_path(job: str, group: str) -> str:
    """The variable of what changes while a group runs."""
    return f"nomad/jobs/{job}/{group}"


def munge_job(home: Home, machine: Machine, fleet: str = "", offering: Offering | None = None) -> Job:
    """Munged on each host of the cluster's own machines, or on each that is given to a fleet."""
    job = munge_id(home.stack, fleet)
    own = Constraint("${node.unique.name}", ",".join(sorted(home.place.hosts.values())), "set_contains_any")
    roll_out = offering.roll_out if offering is not None else home.place.roll_out
    group = Group(
        "munge",
        _tasks(job, "munge", machine, _Seat("", ""), home.place.interface),
        (*(_of_fleet(home.stack, fleet) if fleet else (own,)), DISTINCT_HOSTS),
        update=_update(roll_out, (), in_percent=True),
    )
    return _job(home, job, "system", [group])


def own_job(
    home: Home, boot_name: str, machine: Machine, seats: Mapping[str, str], munged: boot.Service
) -> Job:
    """The cluster's own machines of a boot, by name with their addresses: each on its host, and no other."""
    job = own_id(home.stack, boot_name)
    groups = [
        Group(
            name,
            (
                _after(munged),
                *_tasks(job, name, machine, _Seat(name, f"{address}/{home.prefix}"), home.place.interface),
            ),
            (Constraint("${node.unique.name}", home.place.hosts[name]),),
            _services(job, name if len(seats) > 1 else "", machine),
            _update(home.place.roll_out, machine.daemons),
        )
        for name, address in seats.items()
    ]
    return _job(home, job, "service", groups)


def fleet_job(home: Home, fleet: str, machine: Machine, offering: Offering, munged: boot.Service) -> Job:
    """Slurmd of a fleet: where a host's metadata says so. The machine's name and address are there as well."""
    job = fleet_id(home.stack, fleet)
    seat = _Seat(f"${{meta.{NODE}}}", f"${{meta.{ADDRESS}}}/{home.prefix}")
    group = Group(
        "slurmd",
        (_after(munged), *_tasks(job, "slurmd", machine, seat, home.place.interface)),
        (*_of_fleet(home.stack, fleet), *required_attributes(offering.attributes), DISTINCT_HOSTS),
        _services(job, "", machine),
        _update(offering.roll_out, machine.daemons, in_percent=True),
    )
    return _job(home, job, "system", [group])


def container_job(home: Home, container: Container) -> Job:
    """Return a job that runs beside Slurm: a service on one host, or a system job on the hosts of a fleet."""
    job = container_id(home.stack, container)
    constraints = (
        (Constraint("${node.unique.name}", container.host),)
        if container.host is not None
        else (*_of_fleet(home.stack, str(container.fleet)), DISTINCT_HOSTS)
    )
    services: tuple[Service, ...] = ()
    if container.port is not None:
        http = container.http_path
        services = (Service(container.name, container.port, "http" if http else "tcp", http or "/"),)
    config = {"image": container.image, "args": list(container.args), "network_mode": "host"}
    task = Task(container.name, container.driver, config, env=container.env, memory_mib=256, cpu_mhz=100)
    update = _update(home.place.roll_out, ())
    if services:
        update = replace(update, health_check="checks")
    group = Group(container.name, (task,), constraints, services, update)
    return _job(home, job, "service" if container.host is not None else "system", [group])


def required_attributes(attributes: Attributes) -> tuple[Constraint, ...]:
    """Return the constraints for what hosts must say of themselves."""
    return tuple(
        Constraint(
            f"${{{attribute(key)}}}", ",".join(values), "=" if len(values) == 1 else "set_contains_any"
        )
        for key, values in attributes.items()
    )


def attribute(key: str) -> str:
    """Return Nomad's name of an attribute: metadata, unless it is one of Nomad's own."""
    return key if key.startswith("attr.") else f"meta.{key}"


def _of_fleet(stack: str, fleet: str) -> tuple[Constraint, ...]:
    return Constraint(f"${{meta.{STACK}}}", stack), Constraint(f"${{meta.{FLEET}}}", fleet)


def _job(home: Home, id: str, type: Literal["service", "system"], groups: Sequence[Group]) -> Job:
    place = home.place
    return Job(
        id,
        type,
        tuple(groups),
        place.namespace,
        place.datacenters,
        place.node_pool,
        meta={STACK: home.stack},
    )


#: Nomad's check of a port says nothing and stays open. One that stands by hears one caller after the other, each for up to
#: MessageTimeout: it would never hear the one in charge.
_UNCHECKED: Final = "slurmctld"


def _update(roll_out: RollOut, daemons: Iterable[boot.Service], in_percent: bool = False) -> Update:
    checked = any(port_of(daemon) for daemon in daemons if daemon.name != _UNCHECKED)
    return Update(
        roll_out.max_parallel,
        roll_out.canary_percent if in_percent else 0,
        auto_revert=roll_out.auto_revert,
        # Without a check it is well when it runs.
        health_check="checks" if checked else "task_states",
        min_healthy_s=roll_out.min_healthy_s,
        healthy_deadline_s=roll_out.healthy_deadline_s,
        progress_deadline_s=2 * roll_out.healthy_deadline_s,
    )


def _services(job: str, machine: str, machine_of: Machine) -> tuple[Service, ...]:
    parts = [job, machine] if machine else [job]
    return tuple(
        Service("-".join([*parts, daemon.name]), port, "" if daemon.name == _UNCHECKED else "tcp")
        for daemon in machine_of.daemons
        if (port := port_of(daemon)) is not None
    )


@dataclass(frozen=True, slots=True)
class _Seat:
    """The name and the address of a machine, as Nomad puts them in: empty where it is the host's."""

    name: str
    address: str


def _after(munged: boot.Service) -> Task:
    """Ends when munged is ready: the group's daemons start then, however the two jobs came to the host."""
    script = Template("local/wait", wait_script(munged.ready), literal=True)
    return Task(f"after-{munged.name}", DRIVER, _sh("wait"), (script,), hook="prestart")


def _tasks(job: str, group: str, machine: Machine, seat: _Seat, interface: str) -> tuple[Task, ...]:
    """The machine, and in it its daemons, each when the one before is ready."""
    env = {"MACHINE": seat.name, "ADDRESS": seat.address, "INTERFACE": interface}
    # Where there is one daemon, its files are its own, and others are its new start. Else the machine just has others.
    alone = len(machine.daemons) == 1 and not machine.live
    files = _templates(
        machine.files, keys_path(job), "restart" if alone else "script", (_SH, "local/install")
    )
    made = Template("local/machine", machine_script(machine.mounts, machine.folders), literal=True)
    holder = (made, *(_templates((), "") if alone else files))
    tasks = [Task("machine", DRIVER, _sh("machine"), holder, env, hook="prestart", sidecar=True)]
    once: list[boot.Service] = []
    after = ""
    for daemon in machine.daemons:
        if daemon.once:
            once.append(daemon)
            continue
        own = files if alone else _live(machine, daemon, live_path(job, group))
        run = Template("local/run", run_script(daemon, once, after), literal=True)
        told = (run, *(own or _templates((), "")))
        tasks.append(Task(daemon.name, DRIVER, _sh("run"), told, env, kill_timeout_s=daemon.stop_timeout_s))
        once, after = [], daemon.ready if daemon.ready != "started" else after
    return tuple(tasks)


def _live(machine: Machine, daemon: boot.Service, variable: str) -> tuple[Template, ...]:
    """Return the files that a daemon reads again while it runs: it is told by SIGHUP."""
    if not any(daemon.begins == f"path:{file.path}" for file in machine.live):
        return ()
    changed = Template("local/changed", changed_script(), literal=True)
    return (changed, *_templates(machine.live, variable, "script", (_SH, "local/changed")))


def _templates(
    files: Sequence[MachineFile],
    variable: str,
    on_change: Literal["restart", "script"] = "script",
    script: tuple[str, ...] = (),
) -> tuple[Template, ...]:
    """Files in the task's folder, and the program that puts them where the machine has them."""
    placed = []
    for file in files:
        if file.content is not None:
            # Another text is another version of the job, and rolled out.
            template = Template(f"local/files/{item_of(file)}", file.content, "0600", literal=True)
        else:
            value = f".{item_of(file)}.Value | base64Decode" if file.is_base64 else f".{item_of(file)}.Value"
            text = f'{{{{ with nomadVar "{variable}" }}}}{{{{ {value} }}}}{{{{ end }}}}'
            told = script if on_change == "script" else ()
            template = Template(f"secrets/files/{item_of(file)}", text, "0600", on_change, told)
        placed.append((template, file))
    sources = [(_in_task(template.path), file) for template, file in placed]
    program = Template("local/install", install_script(sources), literal=True)
    return (program, *(template for template, _ in placed))


def _in_task(path: str) -> str:
    folder, _, rest = path.partition("/")
    return f"${{NOMAD_{'SECRETS' if folder == 'secrets' else 'TASK'}_DIR}}/{rest}"


def _sh(script: str) -> Mapping[str, object]:
    return {"command": _SH, "args": [f"local/{script}"]}
