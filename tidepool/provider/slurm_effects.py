"""Effects of a change of Slurm's files, and what it would take away. Pure.

slurm.conf(5) of 22.05 says which keys slurmctld reads at its start alone; partitions it can be told of; all else
follows a reconfigure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal

from tidepool.clients.slurm import Job, JobState, Partition
from tidepool.cluster.hostlist import HostSet, expand
from tidepool.provider.retirement import job_ids

#: Of a node's line, what a job was given its part of, in lower case.
_SHAPE: Final = frozenset(["cpus", "sockets", "corespersocket", "threadspercore", "realmemory", "gres"])
#: What `scontrol update partition` takes (scontrol(1) of 22.05), in lower case.
_LIVE: Final = frozenset(
    [
        "allocnodes",
        "allowaccounts",
        "allowgroups",
        "allowqos",
        "alternate",
        "cpubind",
        "default",
        "defaulttime",
        "defmempercpu",
        "defmempernode",
        "denyaccounts",
        "denyqos",
        "disablerootjobs",
        "exclusiveuser",
        "gracetime",
        "hidden",
        "jobdefaults",
        "lln",
        "maxcpuspernode",
        "maxmempercpu",
        "maxmempernode",
        "maxnodes",
        "maxtime",
        "minnodes",
        "nodes",
        "oversubscribe",
        "overtimelimit",
        "powerdownonidle",
        "preemptmode",
        "priorityjobfactor",
        "prioritytier",
        "qos",
        "reqresv",
        "rootonly",
        "state",
        "tresbillingweights",
    ]
)


@dataclass(frozen=True, slots=True)
class PartitionOrder:
    """A call of scontrol."""

    verb: Literal["create", "update", "delete"]
    name: str
    settings: tuple[tuple[str, str], ...] = ()


def partition_orders(old: Iterable[str], new: Iterable[str]) -> tuple[PartitionOrder, ...] | None:
    """Return the orders from the partitions of one slurm.conf to those of another; None where no orders can say it.

    Who gives up being the default comes before who becomes it.
    """
    before, after = _partitions(old), _partitions(new)
    if before is None or after is None:
        return None
    orders = [PartitionOrder("delete", name) for name in before if name not in after]
    for name, settings in after.items():
        if name not in before:
            orders.append(PartitionOrder("create", name, tuple(settings.items())))
            continue
        known = before[name]
        if known.keys() - settings.keys():
            return None  # back to Slurm's own default, which no order says
        changed = tuple((key, value) for key, value in settings.items() if known.get(key) != value)
        if changed:
            orders.append(PartitionOrder("update", name, changed))
    said = {key for order in orders for key, _ in order.settings}
    if not {key.lower() for key in said} <= _LIVE:
        return None
    return tuple(sorted(orders, key=_becomes_default))


def _becomes_default(order: PartitionOrder) -> bool:
    return any(key.lower() == "default" and value.upper() == "YES" for key, value in order.settings)


def _partitions(lines: Iterable[str]) -> Mapping[str, Mapping[str, str]] | None:
    """The settings of each partition; None where there are defaults for all, or values with blanks."""
    found = {}
    for line in lines:
        if '"' in line:
            return None
        (first, name), *settings = (word.partition("=")[::2] for word in line.split())
        if first.lower() != "partitionname" or name.upper() == "DEFAULT":
            return None
        found[name] = dict(settings)
    return found


#: In lower case. Those after the first group are not in slurm.conf(5): plugins that are loaded once, and the name
#: that the saved state is of.
_AT_START: Final = frozenset(
    {
        "accountingstorageenforce",
        "authtype",
        "credtype",
        "grestypes",
        "jobcontainertype",
        "maxjobcount",
        "maxnodecount",
        "plugindir",
        "powerplugin",
        "proctracktype",
        "schedulertype",
        "selecttype",
        "selecttypeparameters",
        "slurmctldhost",
        "slurmctldport",
        "slurmdport",
        "statesavelocation",
        "switchtype",
    }
    # Power saving: a thread that is started with slurmctld, where there is a program to call.
    | {"resumeprogram", "suspendprogram"}
    | {
        "accountingstoragehost",
        "accountingstoragepass",
        "accountingstorageport",
        "accountingstoragetype",
        "burstbuffertype",
        "clustername",
        "topologyplugin",
    }
)
_CONFIGLESS: Final = "enable_configless"
_PARTITION: Final = "partitionname"
_LINE_KEYS: Final = frozenset({"nodename", "nodeset", "partitionname", "downnodes", "frontendname"})
_EQUALS = re.compile(r" ?= ?")
_PAIR = re.compile(r"(?P<key>[A-Za-z]\w*)\s*=\s*(?P<value>.*)")


class Effect(IntEnum):
    """The work of slurmctld, from the least to the most. Jobs go on in any case."""

    NOTHING = 0
    #: It is told of partitions, and reads nothing.
    ORDERS = 1
    RECONFIGURE = 2
    RESTART = 3


@dataclass(frozen=True, slots=True)
class Impact:
    """The effect of a change, the keys that it is because of, and the orders that it takes."""

    effect: Effect
    because: tuple[str, ...] = ()
    orders: tuple[PartitionOrder, ...] = ()


def impact(old: Mapping[str, str], new: Mapping[str, str]) -> Impact:
    """Return the impact of the change from the files ``old`` to ``new``; comments and white space say nothing."""
    before, after = _Conf.read(old.get("slurm.conf", "")), _Conf.read(new.get("slurm.conf", ""))
    reasons = [
        after.spelling.get(key, before.spelling.get(key, key))
        for key in sorted(_AT_START)
        if before.values.get(key) != after.values.get(key)
    ]
    if before.is_configless != after.is_configless:
        reasons.append("SlurmctldParameters")
    if before.lines("nodename") != after.lines("nodename"):
        reasons.append("NodeName")
    if reasons:
        return Impact(Effect.RESTART, tuple(reasons))
    names = {*old, *new}
    if all(_bare(old.get(name)) == _bare(new.get(name)) for name in names):
        return Impact(Effect.NOTHING)
    if before.without(_PARTITION) == after.without(_PARTITION) and all(
        _bare(old.get(name)) == _bare(new.get(name)) for name in names - {"slurm.conf"}
    ):
        orders = partition_orders(before.lines(_PARTITION), after.lines(_PARTITION))
        if orders is not None:
            return Impact(Effect.ORDERS, orders=orders)
    return Impact(Effect.RECONFIGURE)


def partitions_of(files: Mapping[str, str]) -> frozenset[str]:
    """The partitions that slurm.conf has."""
    found = set()
    for written in _Conf.read(files.get("slurm.conf", "")).lines("partitionname"):
        name = written.split()[0].partition("=")[2]
        if name.upper() != "DEFAULT":
            found.add(name)
    return frozenset(found)


def lost_slots(old: Mapping[str, str], new: Mapping[str, str]) -> HostSet:
    """Return the slots of the files ``old`` that have no line in ``new``, or one with another shape."""
    before, after = _shapes(old), _shapes(new)
    lost = HostSet()
    for shape, slots in before.items():
        lost |= slots - after.get(shape, HostSet())
    return lost


def lost_fleets(old: Mapping[str, str], new: Mapping[str, str]) -> frozenset[str]:
    """Return the fleets of which ``new`` has no set of nodes any more, wherever Slurm has their slots from."""
    before, after = (
        {
            word
            for written in _Conf.read(files.get("slurm.conf", "")).lines("nodeset")
            for word in written.split()[1:]
        }
        for files in (old, new)
    )
    return frozenset(word.partition("=")[2] for word in before - after)


def used_of(fleets: Collection[str], jobs: Iterable[Job]) -> HostSet:
    """Return the nodes of these fleets that jobs run on."""
    nodes = {name for job in jobs if job.state is not JobState.PENDING for name in expand(job.nodelist)}
    return HostSet.from_names([name for name in nodes if name.rpartition("-")[0] in fleets])


def states_by_hand(
    old: Mapping[str, str], new: Mapping[str, str], partitions: Iterable[Partition]
) -> tuple[PartitionOrder, ...]:
    """Return the orders that give partitions the states that they have now, where neither file says another: slurmctld forgets them.

    Who closed a partition for the night finds it closed, whatever an `up` changed meanwhile.
    """
    before, after = _states(old), _states(new)
    return tuple(
        PartitionOrder("update", each.name, (("State", each.state),))
        for each in partitions
        if each.name in after and after[each.name] == before.get(each.name) != each.state
    )


def _states(files: Mapping[str, str]) -> Mapping[str, str]:
    """By partition, the state that slurm.conf says."""
    found = {}
    for written in _Conf.read(files.get("slurm.conf", "")).lines(_PARTITION):
        (_, name), *settings = (word.partition("=")[::2] for word in written.split())
        found[name] = next((value for key, value in settings if key.lower() == "state"), "UP").upper()
    return found


def _shapes(files: Mapping[str, str]) -> Mapping[tuple[str, ...], HostSet]:
    """By what their lines say of their machine, the slots of slurm.conf."""
    found: dict[tuple[str, ...], HostSet] = {}
    for written in _Conf.read(files.get("slurm.conf", "")).lines("nodename"):
        (_, _, names), *settings = (word.partition("=") for word in written.split())
        shape = tuple(sorted(f"{key}={value}" for key, _, value in settings if key.lower() in _SHAPE))
        found[shape] = found.get(shape, HostSet()) | HostSet(names)
    return found


def losses(gone_partitions: Collection[str], slots: HostSet, jobs: Collection[Job]) -> Iterator[str]:
    """Yield why these partitions cannot go, and these slots cannot go or change, a line each; nothing where they can."""
    for partition in sorted(gone_partitions):
        if queued := sorted({job.job_id for job in jobs if partition in job.partitions}):
            yield (
                f"partition {partition} cannot go: Slurm would cancel the jobs {', '.join(map(str, queued))} in it; "
                "wait for their end, or move them: `scontrol update jobid=ID partition=NAME`"
            )
    if ids := job_ids(jobs, slots):
        yield (
            f"of the slots {slots}, which go or have another shape, some run the jobs {', '.join(map(str, ids))}; wait for "
            f"their end, or end them: `scancel {' '.join(map(str, ids))}`"
        )


def setting(files: Mapping[str, str], key: str, default: str) -> str:
    """The value of a key of slurm.conf."""
    values = _Conf.read(files.get("slurm.conf", "")).values.get(key.lower())
    return values[0] if values else default


@dataclass(frozen=True, slots=True)
class _Conf:
    """slurm.conf: the values of each key, in order (SlurmctldHost has several), and lines of nodes and partitions."""

    values: Mapping[str, tuple[str, ...]]
    spelling: Mapping[str, str]

    @classmethod
    def read(cls, text: str) -> _Conf:
        values: dict[str, tuple[str, ...]] = {}
        spelling: dict[str, str] = {}
        for line in _bare(text):
            found = _PAIR.match(line)
            if not found:
                continue
            key = found["key"].lower()
            # A line about nodes holds many keys, and its first one with its value tells which.
            value = line if key in _LINE_KEYS else found["value"].strip()
            values[key] = (*values.get(key, ()), value)
            spelling[key] = found["key"]
        return cls(values, spelling)

    def lines(self, key: str) -> tuple[str, ...]:
        return self.values.get(key, ())

    def without(self, key: str) -> Mapping[str, tuple[str, ...]]:
        return {name: value for name, value in self.values.items() if name != key}

    @property
    def is_configless(self) -> bool:
        parameters = ",".join(self.values.get("slurmctldparameters", ()))
        return _CONFIGLESS in parameters.lower().split(",")


def _bare(text: str | None) -> tuple[str, ...]:
    """The lines that say something, without comments; continued ones joined."""
    joined = (text or "").replace("\\\n", " ")
    lines = (_EQUALS.sub("=", " ".join(line.partition("#")[0].split())) for line in joined.splitlines())
    return tuple(line for line in lines if line)
