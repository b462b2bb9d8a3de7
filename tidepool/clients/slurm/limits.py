"""The limits that slurmctld holds jobs to, with what is used of each, as `scontrol show assoc_mgr` tells; and which holds a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    #: What is used, also where there is no limit.
    used: Mapping[Key, str] = field(default_factory=dict, compare=False)

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
#: As slurmctld writes that there is no limit.
_NONE: Final = "N"
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
        found: dict[Key, Use] = {}
        for name, written in _FIELD.findall(line):
            for key, use in _uses(_NAMES.get(name, name), written):
                found.setdefault(key, use)
        limits = {key: use for key, use in found.items() if use.value != _NONE}
        used = {key: use.used for key, use in found.items() if use.used}
        if kind == "QOS":
            yield Limited(limits, qos=_field(line, "QOS"), used=used)
        else:
            account, user, parent = (_field(line, key) for key in ("Account", "UserName", "ParentAccount"))
            yield Limited(limits, account, user, parent, used=used)


def _uses(name: str, written: str) -> Iterator[tuple[Key, Use]]:
    for part in written.split(","):
        resource, is_tres, value = part.rpartition("=")
        found = _USE.fullmatch(value)
        if found:
            yield (name, resource if is_tres else ""), Use(found[1], found[2] or "")


def _field(line: str, key: str) -> str:
    """Return a field without the number behind it."""
    found = re.search(rf"(?:^|\s){key}=([^\s(]*)", line)
    return found[1] if found else ""


def lowered(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return those of ``after`` that may allow less than ``before`` did: all that are not seen to allow as much."""
    return {
        name: written
        for name, written in after.items()
        if not _allows(dict(_values(name, before.get(name, ""))), dict(_values(name, written)))
    }


def _allows(before: Mapping[Key, Use], after: Mapping[Key, Use]) -> bool:
    """Tell if each of ``after`` is a number that is no less than that of ``before``."""
    numbers = [(before[key].value if key in before else "", use.value) for key, use in after.items()]
    return all(
        old == new or (old.isdecimal() and new.isdecimal() and int(old) <= int(new)) for old, new in numbers
    )


def _values(name: str, written: str) -> Iterator[tuple[Key, Use]]:
    # Of memory, which the spec has in MiB, slurmctld writes the number alone.
    return _uses(name, re.sub(r"(?<=[0-9])M\b", "", written))


def exceeded(limits: Mapping[str, str], there: Limited) -> Iterator[str]:
    """Yield in words which of ``limits``, as `tidepool.cluster.slurm_limits` has them, are less than is used now."""
    for name, written in limits.items():
        for (_, resource), use in _values(name, written):
            used = there.used.get((name, resource), "")
            if use.value.isdecimal() and used.isdecimal() and int(used) > int(use.value):
                what = f"{name} {resource}={use.value}" if resource else f"{name} {use.value}"
                yield f"{what} of {there} is less than is used, {used}"


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
