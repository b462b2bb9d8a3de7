"""The limits that slurmctld holds jobs to, with what is used of each, as `scontrol show assoc_mgr` tells; and which holds a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

#: A limit by its name, and of TRES by the resource's.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Use:
    """A limit's value, and what is used of it; empty where that is not counted."""

    value: str
    used: str = ""


@dataclass(frozen=True, slots=True)
class Limited:
    """An account, a user in one, or a quality of service (``qos``), with the limits that it has itself."""

    limits: Mapping[Key, Use]
    account: str = ""
    user: str = ""
    parent: str = ""
    qos: str = ""

    def __str__(self) -> str:
        if self.qos:
            return f"the quality of service {self.qos}"
        return f"{self.user} in the account {self.account}" if self.user else f"the account {self.account}"


#: Of what slurmctld calls otherwise than sacctmgr.
_NAMES: Final = {
    "MaxWallPJ": "MaxWallDurationPerJob",
    "MaxTRESPJ": "MaxTRESPerJob",
    "MaxTRESPN": "MaxTRESPerNode",
    "MaxTRESMinsPJ": "MaxTRESMinsPerJob",
    "MinTRESPJ": "MinTRESPerJob",
    "MaxJobsPA": "MaxJobsPerAccount",
    "MaxJobsPU": "MaxJobsPerUser",
    "MaxSubmitJobsPA": "MaxSubmitJobsPerAccount",
    "MaxSubmitJobsPU": "MaxSubmitJobsPerUser",
    "MaxTRESPA": "MaxTRESPerAccount",
    "MaxTRESPU": "MaxTRESPerUser",
}
_FIELD: Final = re.compile(r"\b((?:Grp|Max|Min)[A-Za-z]+)=([^\s{}]+)")
_USE: Final = re.compile(r"([^()]+?)(?:\(([^()]*)\))?")


def parse_limits(text: str) -> tuple[Limited, ...]:
    """Return what `scontrol --oneliner show assoc_mgr flags=assoc,qos` tells of."""
    return tuple(_records(text))


def _records(text: str) -> Iterator[Limited]:
    for line in text.splitlines():
        kind, _, _ = line.partition("=")
        if kind not in ("ClusterName", "QOS"):
            continue
        limits: dict[Key, Use] = {}
        for name, written in _FIELD.findall(line):
            for key, use in _uses(_NAMES.get(name, name), written):
                limits.setdefault(key, use)
        if kind == "QOS":
            yield Limited(limits, qos=_field(line, "QOS"))
        else:
            account, user, parent = (_field(line, key) for key in ("Account", "UserName", "ParentAccount"))
            yield Limited(limits, account, user, parent)


def _uses(name: str, written: str) -> Iterator[tuple[Key, Use]]:
    for part in written.split(","):
        resource, is_tres, value = part.rpartition("=")
        found = _USE.fullmatch(value)
        if found and found[1] != "N":  # none
            yield (name, resource if is_tres else ""), Use(found[1], found[2] or "")


def _field(line: str, key: str) -> str:
    """Return a field without the number behind it."""
    found = re.search(rf"(?:^|\s){key}=([^\s(]*)", line)
    return found[1] if found else ""


_REASON: Final = re.compile(r"(Assoc|QOS)(Grp|Max|Min)(\w+?)(?:Limit)?")
_RESOURCE: Final = re.compile(
    r"(cpu|memory|mem|node|gres|billing|energy|license|bb)(minutes|runminutes|)(perjob|pernode|peruser|peraccount|)"
)
_PER: Final = {
    "perjob": "PerJob",
    "pernode": "PerNode",
    "peruser": "PerUser",
    "peraccount": "PerAccount",
    "": "",
}


def limit_of(reason: str) -> tuple[str, str] | None:
    """Return the name of the limit that Slurm's reason of a job tells of, and the resource; None where it tells of none."""
    found = _REASON.fullmatch(reason)
    if found is None:
        return None
    _, kind, rest = found.groups()
    tres = _RESOURCE.fullmatch(rest.lower())
    if tres is None:
        return f"{kind}{rest}", ""
    resource, minutes, per = tres.groups()
    over = {"minutes": "TRESMins", "runminutes": "TRESRunMins", "": "TRES"}[minutes]
    return f"{kind}{over}{_PER[per]}", "mem" if resource == "memory" else resource


def holding(
    reason: str, account: str, user: str, qos: str, there: Sequence[Limited]
) -> tuple[tuple[Limited, Key, Use], ...]:
    """Return the limits that may hold a job of ``account``, ``user`` and ``qos`` for Slurm's ``reason``, the nearest first."""
    limit = limit_of(reason)
    if limit is None:
        return ()
    if reason.startswith("QOS"):
        over = [each for each in there if each.qos == qos]
    else:
        over = list(_above(account, user, {(each.account, each.user): each for each in there}))
    found = [
        (each, key, use)
        for each in over
        for key, use in each.limits.items()
        if key[0] == limit[0] and key[1].split("/")[0] == limit[1]
    ]
    # What is counted of a group, each above counts; of the others the nearest holds.
    return tuple(found if limit[0].startswith("Grp") else found[:1])


def _above(account: str, user: str, there: Mapping[tuple[str, str], Limited]) -> Iterator[Limited]:
    if own := there.get((account, user)):
        yield own
    while above := there.get((account, "")):
        yield above
        if not above.parent:
            return
        account = above.parent
