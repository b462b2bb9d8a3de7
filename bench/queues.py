"""What squeue and scontrol would write of a large cluster with a long queue, for measurements. Same seed, same text."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from typing import Any, Final

from tidepool.clients.slurm.job import OWN_COLUMNS, REQUEST_COLUMNS, STANDING_COLUMNS
from tidepool.cluster.hostlist import HostSet, fold
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import read_spec
from tidepool.infrastructures import Machine, MachineKey
from tidepool.scaling.cluster_state import Recorded

MARK: Final = "\x1emark\x1e"
AT: Final = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)

#: Of every hundred slots, how many are there: running jobs with and without room beside them, idle, being made.
_ALLOCATED, _MIXED, _IDLE, _LAUNCHING = 45, 15, 5, 5


@dataclass(frozen=True, slots=True)
class Kind:
    """A fleet: of a thousand nodes, how many are its; CPUs, MiB, gres; features beside its name."""

    name: str
    share: int
    cpus: int
    memory_mib: int
    gres: tuple[tuple[str, str, int], ...] = ()
    features: tuple[str, ...] = ()
    price: float = 1.0


KINDS: Final = (
    Kind("std", 450, 32, 128_000, features=("avx2", "ib"), price=1.2),
    Kind("small", 250, 8, 32_000, features=("avx2",), price=0.3),
    Kind("big", 150, 64, 512_000, features=("avx2", "avx512", "ib"), price=3.6),
    Kind("gpu", 100, 32, 256_000, (("gpu", "a100", 4),), ("avx2", "ib", "nvlink"), 12.0),
    Kind("mem", 50, 64, 2_000_000, features=("avx2", "hbm"), price=9.0),
)
_PARTITIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "main": ("small", "std", "big"),
    "long": ("std", "big"),
    "gpu": ("gpu",),
    "himem": ("mem",),
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as it is seen at one moment: text of Slurm's, and the rest as it is kept."""

    spec: ClusterSpec
    nodes: str
    queue: str
    desired: Mapping[str, HostSet]
    recorded: Mapping[str, Recorded]
    machines: tuple[Machine, ...]
    under_way: frozenset[str]


def cluster(nodes: int, pending: int, seed: int = 1) -> Cluster:
    """One of ``nodes`` slots, with ``pending`` records of jobs that wait."""
    chosen = random.Random(seed)
    spec = _spec(nodes)
    lines: list[str] = []
    running: list[str] = []
    there: dict[str, list[str]] = {}
    under_way: list[str] = []
    job_id = 1_000_000
    for fleet, kind in zip(spec.fleets, KINDS, strict=True):
        for slot in fleet.slots():
            dice = chosen.randrange(100)
            state, cpus, memory = "FUTURE", 0, 0
            if dice < _ALLOCATED + _MIXED:
                state = "ALLOCATED" if dice < _ALLOCATED else "MIXED"
                cpus = kind.cpus if dice < _ALLOCATED else kind.cpus * chosen.randrange(1, 4) // 4
                memory = cpus * chosen.choice((1000, 2000, 4000))
                memory = min(memory, kind.memory_mib)
                job_id += 1
                running.append(_running(job_id, slot.node_name, kind, cpus, memory, chosen))
            elif dice < _ALLOCATED + _MIXED + _IDLE:
                state = "IDLE"
            elif dice < _ALLOCATED + _MIXED + _IDLE + _LAUNCHING:
                under_way.append(slot.node_name)
            if state != "FUTURE" or slot.node_name in under_way[-1:]:
                there.setdefault(kind.name, []).append(slot.node_name)
            lines.append(_node(slot.node_name, str(slot.address), kind, state, cpus, memory))
    waiting = [_pending(number, chosen) for number in range(1, pending + 1)]
    columns = (*OWN_COLUMNS, *STANDING_COLUMNS, *REQUEST_COLUMNS)
    head = _record({name: name.upper() for name, _ in columns}, "ACCOUNT", "NAME")
    names = {name for those in there.values() for name in those}
    machines = tuple(
        Machine(MachineKey("bench", name, f"i-{number:08x}"), IPv4Address("10.64.0.1") + number, "running")
        for number, name in enumerate(sorted(names.difference(under_way)))
    )
    return Cluster(
        spec=spec,
        nodes="\n".join(lines),
        queue="".join([head, *running, *waiting]) + "\n",
        desired={name: HostSet(fold(those)) for name, those in there.items()},
        recorded={
            name: Recorded(machine=True, membership=True, image="digest")
            for name in names.difference(under_way)
        },
        machines=machines,
        under_way=frozenset(under_way),
    )


def pending_jobs(count: int, seed: int = 1) -> str:
    """So many jobs that wait in the partition main and ask for no feature, as squeue writes them."""
    chosen = random.Random(seed)
    columns = (*OWN_COLUMNS, *STANDING_COLUMNS, *REQUEST_COLUMNS)
    lines = [_record({name: name.upper() for name, _ in columns}, "ACCOUNT", "NAME")]
    for number in range(1, count + 1):
        fields = _fields(number, "PENDING", "Priority", "main", chosen)
        nodes = chosen.choice((1, 1, 1, 1, 1, 2, 4))
        tasks, memory = nodes * chosen.choice((1, 2, 4, 8)), chosen.choice((500, 1000, 2000, 4000))
        fields |= {
            "NumNodes": nodes,
            "MaxNodes": nodes,
            "NumCPUs": tasks,
            "NumTasks": tasks,
            "MinMemory": f"{memory}M",
            "tres-alloc": f"cpu={tasks},mem={memory * tasks}M,node={nodes},billing={tasks}",
            "PriorityLong": chosen.randrange(1, 10_000_000),
            "TimeLimit": chosen.choice(_LIMITS),
        }
        lines.append(_job(fields, chosen))
    return "".join(lines) + "\n"


def _spec(nodes: int) -> ClusterSpec:
    return read_spec(
        {
            "name": "bench",
            "network": "10.64.0.0/12",
            "fleets": [
                {
                    "name": kind.name,
                    "subnet": f"10.{65 + place}.0.0/16",
                    "max_nodes": max(1, nodes * kind.share // 1000),
                    "shape": {
                        "cpus": kind.cpus,
                        "memory": kind.memory_mib,
                        "sockets": 2,
                        "gres": [
                            {
                                "name": name,
                                "type": type,
                                "count": count,
                                "files": f"/dev/nvidia[0-{count - 1}]",
                            }
                            for name, type, count in kind.gres
                        ],
                    },
                    "features": list(kind.features),
                    "infrastructures": [{"name": "local", "price_usd_per_hour": kind.price}],
                }
                for place, kind in enumerate(KINDS)
            ],
            "partitions": [
                {"name": name, "fleets": list(fleets), "default": name == "main"}
                for name, fleets in _PARTITIONS.items()
            ],
        }
    )


def _node(name: str, address: str, kind: Kind, state: str, cpus: int, memory: int) -> str:
    up = state != "FUTURE"
    gres = ",".join(f"{gres}:{type}:{count}" for gres, type, count in kind.gres) or "(null)"
    features = ",".join((kind.name, *kind.features))
    allocated = f"cpu={cpus},mem={memory}M" if cpus else ""
    began = int((AT - timedelta(hours=3)).timestamp()) if up else "None"
    partitions = ",".join(name for name, fleets in _PARTITIONS.items() if kind.name in fleets)
    return (
        f"NodeName={name} {'Arch=x86_64 ' if up else ''}CoresPerSocket={kind.cpus // 2}  CPUAlloc={cpus} "
        f"CPUEfctv={kind.cpus} CPUTot={kind.cpus} CPULoad={'1.50' if up else 'N/A'} "
        f"AvailableFeatures={features} ActiveFeatures={features} Gres={gres} NodeAddr={address} "
        f"NodeHostName={name} {'Version=22.05.8 OS=Linux 6.1.0-18-amd64 #1 SMP ' if up else ''}"
        f"RealMemory={kind.memory_mib} AllocMem={memory} FreeMem={'100000' if up else 'N/A'} Sockets=2 Boards=1 "
        f"State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
        f"{f'Partitions={partitions} ' if up else ''} BootTime={began} SlurmdStartTime={began} "
        f"LastBusyTime={began if up else 'Unknown'} CfgTRES=cpu={kind.cpus},mem={kind.memory_mib}M,billing={kind.cpus} "
        f"AllocTRES={allocated}  CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 "
        "ExtSensorsTemp=n/s  "
    )


_LIMITS: Final = ("30:00", "1:00:00", "2:00:00", "4:00:00", "8:00:00", "12:00:00", "1-00:00:00", "UNLIMITED")


def _running(job_id: int, node: str, kind: Kind, cpus: int, memory: int, chosen: random.Random) -> str:
    gpus = f"gres:gpu:{1 + chosen.randrange(3)}" if kind.gres else "N/A"
    began = int(AT.timestamp()) - chosen.randrange(3600)
    fields = _fields(job_id, "RUNNING", "None", "main", chosen)
    fields |= {
        "NumCPUs": cpus,
        "NumTasks": cpus,
        "MinMemory": f"{memory}M",
        "tres-alloc": f"cpu={cpus},mem={memory}M,node=1,billing={cpus}",
        "tres-per-node": gpus,
        "StartTime": began,
        "EndTime": began + 14_400,
        "NodeList": node,
        "TimeLimit": "4:00:00",
    }
    return _job(fields, chosen)


def _pending(number: int, chosen: random.Random) -> str:
    """A job of a mixed department: most of one node, some of many; arrays, GPUs, features, some that are held."""
    partition = chosen.choices(list(_PARTITIONS), (70, 12, 13, 5))[0]
    nodes, tasks, per_task = 1, chosen.choice((1, 1, 1, 2, 4, 8)), chosen.choice((1, 1, 2, 4))
    if chosen.randrange(100) < 8 and partition != "himem":
        nodes = chosen.choice((2, 2, 4, 8, 16))
        tasks = nodes * chosen.choice((1, 2, 4, 8))
    cpus = tasks * per_task
    memory = chosen.choice((500, 1000, 2000, 4000))
    reason = chosen.choices(
        ("Priority", "Resources", "Dependency", "JobHeldUser", "BeginTime", "QOSMaxJobsPerUserLimit", "None"),
        (880, 20, 40, 20, 10, 20, 10),
    )[0]
    fields = _fields(number, "PENDING", reason, partition, chosen)
    dice = chosen.randrange(100)
    fields |= {
        "ArrayTaskID": _array(chosen) if chosen.randrange(100) < 5 else "N/A",
        "NumNodes": nodes,
        "MaxNodes": nodes,
        "NumCPUs": cpus,
        "NumTasks": tasks,
        "cpus-per-task": per_task,
        "MinMemory": f"{memory}M",
        "tres-alloc": f"cpu={cpus},mem={memory * cpus}M,node={nodes},billing={cpus}",
        "tres-per-node": f"gres:gpu:{chosen.choice((1, 1, 2, 4))}" if partition == "gpu" else "N/A",
        "Feature": "avx2"
        if dice < 6
        else "(ib|hbm)&avx2"
        if dice < 10
        else "[std|big]"
        if dice < 12
        else "(null)",
        "OverSubscribe": "NO" if chosen.randrange(100) < 3 else "OK",
        "Dependency": f"afterok:{number - 1}(unfulfilled)" if reason == "Dependency" else "(null)",
        "PriorityLong": 0 if reason == "JobHeldUser" else chosen.randrange(1, 10_000_000),
        "TimeLimit": chosen.choice(_LIMITS),
    }
    if reason == "BeginTime":
        fields["EligibleTime"] = int(AT.timestamp()) + 86_400
    return _job(fields, chosen)


def _array(chosen: random.Random) -> str:
    return f"0-{chosen.randrange(9, 1000)}" + ("%20" if chosen.randrange(2) else "")


def _fields(job_id: int, state: str, reason: str, partition: str, chosen: random.Random) -> dict[str, Any]:
    submitted = int(AT.timestamp()) - chosen.randrange(1, 200_000)
    return {
        "JobID": job_id,
        "ArrayJobID": job_id,
        "ArrayTaskID": "N/A",
        "HetJobID": "N/A",
        "State": state,
        "Reason": reason,
        "Partition": partition,
        "UserName": f"user{chosen.randrange(300)}",
        "QOS": "normal",
        "NumNodes": 1,
        "MaxNodes": 1,
        "NumCPUs": 1,
        "MinCpus": 1,
        "NumTasks": 1,
        "cpus-per-task": 1,
        "MinMemory": "0",
        "MinTmpDisk": 0,
        "Feature": "(null)",
        "tres-alloc": "N/A",
        "tres-per-job": "N/A",
        "tres-per-node": "N/A",
        "tres-per-socket": "N/A",
        "tres-per-task": "N/A",
        "Licenses": "(null)",
        "Dependency": "(null)",
        "Reservation": "(null)",
        "OverSubscribe": "OK",
        "Contiguous": 0,
        "PriorityLong": 1,
        "TimeLimit": "UNLIMITED",
        "SubmitTime": submitted,
        "EligibleTime": submitted,
        "StartTime": "N/A",
        "EndTime": "N/A",
        "NodeList": "",
        "ReqNodes": "",
        "BatchFlag": 1,
        "RestartCnt": 0,
        "cpus-per-tres": "N/A",
        "mem-per-tres": "N/A",
        "threads": "*",
    }


def _job(fields: Mapping[str, Any], chosen: random.Random) -> str:
    name = f"run_{chosen.randrange(1 << 30):x}"
    return "\n" + _record(fields, f"account{chosen.randrange(40)}", name)


def _record(fields: Mapping[str, Any], account: str, name: str) -> str:
    own = [str(fields[column]) for column, _ in OWN_COLUMNS]
    parts = (STANDING_COLUMNS, REQUEST_COLUMNS)
    together = ["\x1c".join(str(fields[column]) for column, _ in part) for part in parts]
    return "\x1f".join([*own, *together]) + MARK + account + MARK + name + MARK
