"""Files of a Slurm whose nodes are on one host: its configuration, and what its log says of jobs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tidepool.lab.scale.cluster import NODE_CPUS

MOST_NODES: Final = 10_000
"""As many ports there are below those that the kernel gives out itself."""
FULL: Final = "full"
"""The partition, and its one node, that is full for ever."""
PARTITION: Final = "nodes"
_FIRST_PORT: Final = 20_000
#: slurmd measures the host, which is smaller than what its node pretends to be; TreeWidth has no slurmd forward to others, whose
#: addresses it does not know. Programs that collect usage, confine or keep an account are left out: nothing of that is measured.
_COMMON: Final = """\
ClusterName=scale
SlurmctldHost={host}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/nodes/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/nodes/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/nodes/%n.log
SlurmdDebug=error
LogTimeFormat=iso8601_ms
MailProg=/bin/true
MpiDefault=none
TreeWidth=65533
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
DebugFlags=NO_CONF_HASH
MinJobAge=10
MaxJobCount=50000
"""


def controller_conf(folder: Path, host: str, address: str, nodes: int, parameters: str) -> str:
    """Return slurmctld's configuration, of so many nodes and the full one; ``parameters`` are SchedulerParameters."""
    last = _FIRST_PORT + nodes
    many = f"n[1-{nodes}]" if nodes > 1 else "n1"
    ports = f"[{_FIRST_PORT + 1}-{last}]" if nodes > 1 else f"{last}"
    return (
        _COMMON.format(folder=folder, host=host, address=address)
        + (f"SchedulerParameters={parameters}\n" if parameters else "")
        + f"NodeName={many} NodeHostname={host} NodeAddr={address} Port={ports} CPUs={NODE_CPUS} RealMemory=1000\n"
        + f"NodeName={FULL} NodeHostname={host} NodeAddr={address} Port={_FIRST_PORT} CPUs=1 RealMemory=1000\n"
        + f"PartitionName={PARTITION} Nodes={many} Default=YES State=UP\n"
        + f"PartitionName={FULL} Nodes={FULL} State=UP\n"
    )


def node_conf(folder: Path, host: str, address: str, number: int) -> str:
    """Return a slurmd's configuration, of itself alone: 5,000 that know of 5,000 would be as many as the square. 0 is the full one."""
    name, cpus = (f"n{number}", NODE_CPUS) if number else (FULL, 1)
    return (
        _COMMON.format(folder=folder, host=host, address=address)
        + f"NodeName={name} NodeHostname={host} NodeAddr={address} Port={_FIRST_PORT + number} CPUs={cpus} RealMemory=1000\n"
        + f"PartitionName={PARTITION} Nodes={name} Default=YES State=UP\n"
    )


class JobEvent(NamedTuple):
    """Line of slurmctld's log about a task of a job (0 where it is no array); its time is in seconds since the epoch."""

    what: Literal["decided", "done"]
    job: int
    task: int
    at_s: float


_LINE: Final = re.compile(
    r"\[(?P<time>[0-9T:.-]+)\] (?:"
    r"sched(?:/backfill: _start_job)?: (?P<decided>Allocate|Started) JobId=(?P<job>\d+)(?:_(?P<task>\d+)\(\d+\))? .*"
    r"|_job_complete: JobId=(?P<done>\d+)(?:_(?P<done_task>\d+)\(\d+\))? done)"
)


def job_events(lines: Iterable[str]) -> Iterator[JobEvent]:
    """Yield what a log of slurmctld, in UTC and by the millisecond, says of jobs that were given nodes or that are done."""
    for line in lines:
        if found := _LINE.fullmatch(line.rstrip("\n")):
            at_s = datetime.fromisoformat(found["time"]).replace(tzinfo=UTC).timestamp()
            if found["decided"]:
                yield JobEvent("decided", int(found["job"]), int(found["task"] or 0), at_s)
            else:
                yield JobEvent("done", int(found["done"]), int(found["done_task"] or 0), at_s)
