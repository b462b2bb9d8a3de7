"""A job of Nomad as frozen values, and its specification as JSON. Nothing of Slurm is here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

_NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint on hosts: ``${meta.rack}`` is ``r1``. The operands are Nomad's."""

    left: str
    right: str
    operand: str = "="


#: No two of a group on one host. In system jobs that is so anyway.
DISTINCT_HOSTS: Final = Constraint("", "true", "distinct_hosts")


@dataclass(frozen=True, slots=True)
class Update:
    """Rules by which another version of a job comes to its hosts.

    ``max_parallel`` hosts at a time; the next ones when those before were healthy for ``min_healthy_s``. One that is not
    within ``healthy_deadline_s`` ends the roll-out, and with ``auto_revert`` all hosts have the last version that was
    healthy everywhere. ``canary`` comes first, and waits for a promotion: of services a number of allocations beside the
    old ones, of system jobs a percentage of the hosts, instead of the old ones.
    """

    max_parallel: int = 1
    canary: int = 0
    auto_revert: bool = True
    health_check: Literal["checks", "task_states"] = "checks"
    min_healthy_s: int = 10
    healthy_deadline_s: int = 180
    progress_deadline_s: int = 600


#: What servers before 1.11 wait between two hosts of a system job; since then they do as with services.
_STAGGER_S: Final = 30


@dataclass(frozen=True, slots=True)
class Template:
    """A file that Nomad writes for a task, at ``path`` in the task's folder, and writes again when what it is of changes.

    ``{{ }}`` in ``text`` is consul-template's, unless it is ``literal``. ``on_change`` is what happens to the task then;
    with ``script`` that program and its arguments are run beside it.
    """

    path: str
    text: str
    mode: str = "0644"
    on_change: Literal["noop", "restart", "script"] = "noop"
    script: tuple[str, ...] = ()
    literal: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A program.

    Those without a ``hook`` are the group's main ones. They start when prestart ones that are no sidecars have ended, and
    those that are sidecars run.
    """

    name: str
    driver: str
    config: Mapping[str, Any]
    templates: tuple[Template, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    hook: Literal["", "prestart"] = ""
    sidecar: bool = False
    kill_timeout_s: float = 5
    cpu_mhz: int = 50
    memory_mib: int = 64


@dataclass(frozen=True, slots=True)
class Service:
    """A static port of the host by its name, and how it is seen that something is well behind it; with "" it is not."""

    name: str
    port: int
    check: Literal["tcp", "http", ""] = "tcp"
    http_path: str = "/"


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks that are together on a host: on each of a system job, else on one."""

    name: str
    tasks: tuple[Task, ...]
    constraints: tuple[Constraint, ...] = ()
    services: tuple[Service, ...] = ()
    update: Update = field(default_factory=Update)


@dataclass(frozen=True, slots=True)
class Job:
    """A job: ``system`` is one of each group on each host that its constraints let in."""

    id: str
    type: Literal["service", "system"]
    groups: tuple[Group, ...]
    namespace: str = "default"
    datacenters: tuple[str, ...] = ("*",)
    node_pool: str = "all"
    meta: Mapping[str, str] = field(default_factory=dict)


def written(job: Job) -> str:
    """The job as Nomad's API takes it, the same for the same job."""
    return json.dumps({"Job": _job(job)}, sort_keys=True)


def _job(job: Job) -> dict[str, Any]:
    return {
        "ID": job.id,
        "Name": job.id,
        "Type": job.type,
        "Namespace": job.namespace,
        "Datacenters": list(job.datacenters),
        "NodePool": job.node_pool,
        "Constraints": [],
        "Meta": dict(job.meta),
        "TaskGroups": [_group(group, job.type) for group in job.groups],
    }


#: A task that ends, with any exit code, is started again on its host for as long as it takes.
_RESTART: Final = {
    "Attempts": 30,
    "Interval": 60 * _NANOSECONDS,
    "Delay": 2 * _NANOSECONDS,
    "Mode": "delay",
}
#: What cannot even be started there is tried again as soon as Nomad lets it. By default it waits for up to an hour, for another
#: host; and where a person named the host there is no other.
_RESCHEDULE: Final = {"Unlimited": True, "Delay": 5 * _NANOSECONDS, "DelayFunction": "constant"}


def _group(group: Group, type: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "Name": group.name,
        "Count": 1,
        "Constraints": [
            {"LTarget": each.left, "RTarget": each.right, "Operand": each.operand}
            for each in group.constraints
        ],
        "Update": _update(group.update),
        "RestartPolicy": _RESTART,
        "Tasks": [_task(task) for task in group.tasks],
    }
    # Nomad refuses one of a system job, which is where it should be or nowhere.
    if type == "service":
        told["ReschedulePolicy"] = _RESCHEDULE
    if group.services:
        ports = [{"Label": _label(each), "Value": each.port} for each in group.services]
        told["Networks"] = [{"Mode": "host", "ReservedPorts": ports}]
        told["Services"] = [_service(each) for each in group.services]
    return told


def _label(service: Service) -> str:
    return service.name.replace("-", "_")


def _service(service: Service) -> dict[str, Any]:
    # Nomad's own registry: no Consul is needed.
    told: dict[str, Any] = {"Name": service.name, "Provider": "nomad", "PortLabel": _label(service)}
    return {**told, "Checks": [_check(service)]} if service.check else told


def _check(service: Service) -> dict[str, Any]:
    check = {
        "Name": f"{service.name} answers",
        "Type": service.check,
        "Interval": 5 * _NANOSECONDS,
        "Timeout": 2 * _NANOSECONDS,
    }
    if service.check == "http":
        check["Path"] = service.http_path
    return check


def _update(update: Update) -> dict[str, Any]:
    return {
        "MaxParallel": update.max_parallel,
        "Canary": update.canary,
        "AutoPromote": False,
        "AutoRevert": update.auto_revert,
        "HealthCheck": update.health_check,
        "MinHealthyTime": update.min_healthy_s * _NANOSECONDS,
        "HealthyDeadline": update.healthy_deadline_s * _NANOSECONDS,
        "ProgressDeadline": update.progress_deadline_s * _NANOSECONDS,
        "Stagger": _STAGGER_S * _NANOSECONDS,
    }


def _task(task: Task) -> dict[str, Any]:
    told: dict[str, Any] = {
        "Name": task.name,
        "Driver": task.driver,
        "Config": dict(task.config),
        "Env": dict(task.env),
        "User": "",
        "Templates": [_template(each) for each in task.templates],
        "KillSignal": "SIGTERM",
        "KillTimeout": int(task.kill_timeout_s * _NANOSECONDS),
        "Resources": {"CPU": task.cpu_mhz, "MemoryMB": task.memory_mib},
    }
    if task.hook:
        told["Lifecycle"] = {"Hook": task.hook, "Sidecar": task.sidecar}
    return told


#: Around what is no text of a literal template: control characters, which no file of ours has.
_NEVER: Final = ("\x02\x02", "\x03\x03")


def _template(template: Template) -> dict[str, Any]:
    told: dict[str, Any] = {
        "DestPath": template.path,
        "EmbeddedTmpl": template.text,
        "Perms": template.mode,
        "ChangeMode": template.on_change,
    }
    if template.literal:
        told["LeftDelim"], told["RightDelim"] = _NEVER
    if template.script:
        told["ChangeScript"] = {
            "Command": template.script[0],
            "Args": list(template.script[1:]),
            "Timeout": 30 * _NANOSECONDS,
            # A daemon that was not told is not as it should be: its task starts anew.
            "FailOnError": True,
        }
    return told
