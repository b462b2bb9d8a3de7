"""Changes of partitions that slurmctld takes while it runs, so that it need not read its files again for them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

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


class Verb(StrEnum):
    """scontrol's."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class PartitionOrder:
    """One call of scontrol."""

    verb: Verb
    name: str
    settings: tuple[tuple[str, str], ...] = ()


def partition_orders(old: Iterable[str], new: Iterable[str]) -> tuple[PartitionOrder, ...] | None:
    """From the lines of partitions in one slurm.conf to those in another; None: it cannot be said by orders.

    Who gives up being the default comes before who becomes it.
    """
    before, after = _partitions(old), _partitions(new)
    if before is None or after is None:
        return None
    orders = [PartitionOrder(Verb.DELETE, name) for name in before if name not in after]
    for name, settings in after.items():
        if name not in before:
            orders.append(PartitionOrder(Verb.CREATE, name, tuple(settings.items())))
            continue
        known = before[name]
        if known.keys() - settings.keys():
            return None  # back to Slurm's own default, which no order says
        changed = tuple((key, value) for key, value in settings.items() if known.get(key) != value)
        if changed:
            orders.append(PartitionOrder(Verb.UPDATE, name, changed))
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
