"""Requests to Slurm: slots to declare, jobs to submit. Frozen, and as arguments."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, Self

from tidepool.cluster.hostlist import count, expand


def one_line(value: str, what: str) -> str:
    """``value``, for an argument of a command.

    Raises:
        ValueError: it holds what would end a line or a field of Slurm's answers.
    """
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise ValueError(f"{what} {value!r} holds control characters; write it on one line")
    return value


def node_names(hostlist: str) -> str:
    """``hostlist``, for an argument that names nodes.

    Raises:
        ValueError: it is empty, cannot be read, or is Slurm's word for all nodes: then it names none, or too many.
    """
    if re.search(r"\s", hostlist) or not count(hostlist):
        raise ValueError(f"{hostlist!r} names no nodes; write a hostlist such as cpu-[1-4]")
    if "ALL" in (name.upper() for name in hostlist.split(",")):
        raise ValueError("ALL is every node of the cluster; name those that are meant")
    return hostlist


SlotState = Literal["FUTURE", "CLOUD"]


@dataclass(frozen=True, slots=True)
class Slots:
    """Nodes to declare: in state FUTURE, or CLOUD for Slurm's power saving, which has them powered down at first.

    ``names`` and ``addresses`` are hostlists of the same length: lists of different lengths end slurmctld of 22.05
    (`fatal`), so they are refused here. ``gres`` is as in slurm.conf (``gpu:a100:2``), ``memory_mib`` is RealMemory.
    """

    names: str
    addresses: str
    cpus: int
    memory_mib: int
    features: tuple[str, ...] = ()
    gres: str = ""
    sockets: int = 0
    cores_per_socket: int = 0
    threads_per_core: int = 0
    weight: int = 1
    state: SlotState = "FUTURE"

    def without(self, names: Collection[str]) -> Self | None:
        """The same but for these ``names``; None where nothing is left."""
        kept = [i for i, name in enumerate(expand(node_names(self.names))) if name not in names]
        if not kept or len(kept) == count(self.names):
            return self if kept else None
        lists = [expand(each) for each in (self.names, self.addresses)]
        chosen, addresses = (",".join(each[i] for i in kept) for each in lists)
        return replace(self, names=chosen, addresses=addresses)

    def arguments(self) -> list[str]:
        """As ``scontrol create`` takes them.

        Raises:
            ValueError: a value cannot stand in them.
        """
        amount = count(node_names(self.names))
        if count(self.addresses) != amount:
            raise ValueError(
                f"{self.names} are {amount} nodes; give as many addresses, not {self.addresses!r}"
            )
        values: dict[str, str | int] = {
            "NodeName": self.names,
            "NodeAddr": node_names(self.addresses),
            "State": self.state,
            "CPUs": self.cpus,
            "Sockets": self.sockets,
            "CoresPerSocket": self.cores_per_socket,
            "ThreadsPerCore": self.threads_per_core,
            "RealMemory": self.memory_mib,
            "Feature": ",".join(self.features),
            "Gres": self.gres,
            "Weight": self.weight,
        }
        return [f"{key}={one_line(str(value), key)}" for key, value in values.items() if value]


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A batch job. ``script`` begins with ``#!``; what is not set is Slurm's default.

    ``memory_mib`` is for each node, ``memory_per_cpu_mib`` for each CPU. ``nodes`` may be a range (``2-4``), ``gpus``
    has a type in front or not (``a100:2``). ``begin`` is the earliest start. ``user`` is for root, who submits for
    others. ``more`` are further options of sbatch.
    """

    script: str
    name: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    user: str = ""
    nodes: str = ""
    tasks: int = 0
    cpus_per_task: int = 0
    memory_mib: int = 0
    memory_per_cpu_mib: int = 0
    features: str = ""
    gres: str = ""
    gpus: str = ""
    licenses: str = ""
    array: str = ""
    dependency: str = ""
    begin: datetime | None = None
    reservation: str = ""
    time_limit_s: int = 0
    exclusive: bool = False
    contiguous: bool = False
    hold: bool = False
    requeue: bool | None = None
    work_dir: str = ""
    output: str = ""
    more: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        """As ``sbatch`` takes them.

        Raises:
            ValueError: a value cannot stand in them.
        """
        return [one_line(argument, "the option") for argument in self._options()]

    def _options(self) -> Iterator[str]:
        values: dict[str, str | int] = {
            "job-name": self.name,
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "uid": self.user,
            "nodes": self.nodes,
            "ntasks": self.tasks,
            "cpus-per-task": self.cpus_per_task,
            "mem": f"{self.memory_mib}M" if self.memory_mib else "",
            "mem-per-cpu": f"{self.memory_per_cpu_mib}M" if self.memory_per_cpu_mib else "",
            "constraint": self.features,
            "gres": self.gres,
            "gpus": self.gpus,
            "licenses": self.licenses,
            "array": self.array,
            "dependency": self.dependency,
            "begin": slurm_time(self.begin) if self.begin else "",
            "reservation": self.reservation,
            # In minutes and seconds: a lone number would be minutes.
            "time": f"{self.time_limit_s // 60}:{self.time_limit_s % 60:02}" if self.time_limit_s else "",
            "chdir": self.work_dir,
            "output": self.output,
        }
        for option, value in values.items():
            if value:
                yield f"--{option}={value}"
        flags = {
            "--exclusive": self.exclusive,
            "--contiguous": self.contiguous,
            "--hold": self.hold,
            "--requeue": self.requeue is True,
            "--no-requeue": self.requeue is False,
        }
        yield from (flag for flag, wanted in flags.items() if wanted)
        yield from self.more


def slurm_time(moment: datetime) -> str:
    """``moment``, which has a zone, as Slurm's commands read it whatever theirs is."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone; say which")
    return f"uts{int(moment.timestamp())}"
