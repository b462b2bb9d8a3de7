"""Limits of associations and of qualities of service: the keys that slurmdbd has, and one form for each value.

Source: sacctmgr(1) of 22.05, which later releases add to. A value has one form here, whichever way a person or sacctmgr
wrote it, so that what is there can be compared with what is wanted.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, cast

Kind = Literal["count", "tres", "minutes", "seconds", "factor"]
"""The kind of a value; ``tres`` are counts by the names of trackable resources."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A key in Slurm's spelling. ``column`` is what `sacctmgr show` calls it."""

    name: str
    kind: Kind
    column: str


Table = MappingProxyType[str, Limit]
"""Limits by their names in lower case, other spellings of Slurm's included."""


def _table(text: str) -> Table:
    """Read lines ``kind:`` and ``Name Column Other...``, the column as it is asked for."""
    found: dict[str, Limit] = {}
    kind = cast(Kind, "")
    for line in text.strip().splitlines():
        if line.endswith(":"):
            kind = cast(Kind, line.removesuffix(":"))
            continue
        name, column, *others = line.split()
        found |= {each.lower(): Limit(name, kind, column) for each in (name, column, *others)}
    return MappingProxyType(found)


#: Of an account, and of a user in it.
ASSOCIATION: Final = _table("""
count:
    GrpJobs GrpJobs
    GrpJobsAccrue GrpJobsAccrue
    GrpSubmitJobs GrpSubmit
    MaxJobs MaxJobs
    MaxJobsAccrue MaxJobsAccrue
    MaxSubmitJobs MaxSubmit
    Priority Priority
tres:
    GrpTRES GrpTRES
    GrpTRESMins GrpTRESMins
    GrpTRESRunMins GrpTRESRunMins
    MaxTRESPerJob MaxTRES
    MaxTRESMinsPerJob MaxTRESMins
    MaxTRESPerNode MaxTRESPerNode
minutes:
    GrpWall GrpWall
    MaxWallDurationPerJob MaxWall
""")

QOS: Final = _table("""
count:
    GrpJobs GrpJobs
    GrpJobsAccrue GrpJobsAccrue
    GrpSubmitJobs GrpSubmit
    MaxJobsAccruePerAccount MaxJobsAccruePA
    MaxJobsAccruePerUser MaxJobsAccruePU
    MaxJobsPerAccount MaxJobsPA
    MaxJobsPerUser MaxJobsPU
    MaxSubmitJobsPerAccount MaxSubmitPA MaxSubmitJobsPA
    MaxSubmitJobsPerUser MaxSubmitPU MaxSubmitJobsPU
    Priority Priority
tres:
    GrpTRES GrpTRES
    GrpTRESMins GrpTRESMins
    GrpTRESRunMins GrpTRESRunMins
    MaxTRESPerAccount MaxTRESPA
    MaxTRESPerJob MaxTRES
    MaxTRESPerNode MaxTRESPerNode
    MaxTRESPerUser MaxTRESPU
    MaxTRESMinsPerJob MaxTRESMins
    MinTRESPerJob MinTRES
minutes:
    GrpWall GrpWall
    MaxWallDurationPerJob MaxWall
seconds:
    GraceTime GraceTime
factor:
    LimitFactor LimitFactor
    UsageFactor UsageFactor
    UsageThreshold UsageThres
""")

Value = str | int | float

_MOST: Final = 2**32 - 3  # Slurm keeps the numbers above for what is not set, and for what is unlimited
_TRES: Final = re.compile(
    r"(cpu|mem|energy|node|billing|vmem|pages|(?:gres|license|fs|bb|ic)/[A-Za-z0-9_.:-]+)=(\S+)"
)
_MIB: Final = {"": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}
_TIME: Final = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


def read_limits(table: Table, limits: Mapping[str, Value]) -> dict[str, str]:
    """Return limits by Slurm's spelling of their keys, in order, each value in its one form.

    Raises:
        ValueError: tells of a key that Slurm does not have, or a value that it cannot be.
    """
    found: dict[str, str] = {}
    for key, value in limits.items():
        limit = table.get(key.lower())
        if limit is None:
            names = {each.name.lower(): each.name for each in table.values()}
            near = difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.5)
            said = (
                f"the nearest that there is is {names[near[0]]}"
                if near
                else f"there are {', '.join(sorted(names.values()))}"
            )
            raise ValueError(f"Slurm has no limit {key} here; {said}")
        if limit.name in found:
            raise ValueError(f"{key} is {limit.name}, which stands here already; leave one out")
        found[limit.name] = canonical(limit, value)
    return dict(sorted(found.items()))


def canonical(limit: Limit, value: Value) -> str:
    """Return the form of a value that is compared: whole numbers, TRES by name with memory in MiB, times in minutes.

    Raises:
        ValueError: it cannot be one; says what can be.
    """
    text = str(value).strip()
    match limit.kind:
        case "count":
            return _count(limit.name, text)
        case "minutes":
            return str(-(-_seconds(limit.name, text, per_number=60) // 60))
        case "seconds":
            return str(_seconds(limit.name, text, per_number=1))
        case "factor":
            if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
                raise ValueError(f"{limit.name} is {text!r}, and can be a number such as 1.5")
            return f"{float(text):g}"
        case "tres":
            return ",".join(f"{name}={amount}" for name, amount in sorted(_tres(limit.name, text).items()))


def cleared(limit: Limit, value: str) -> str:
    """Return what sacctmgr takes a limit away by that has ``value``, in its one form."""
    if limit.kind == "tres":
        return ",".join(f"{each.partition('=')[0]}=-1" for each in value.split(","))
    return {"GraceTime": "0", "Priority": "-1"}.get(limit.name, "-1")


def _count(name: str, text: str) -> str:
    if not text.isdecimal() or int(text) > _MOST:
        raise ValueError(f"{name} is {text!r}, and can be a whole number from 0 to {_MOST}")
    return str(int(text))


def _seconds(name: str, text: str, *, per_number: int) -> int:
    """Return a time in seconds; a lone number is of ``per_number`` seconds."""
    found = _TIME.fullmatch(text)
    if found is None:
        unit = "minutes" if per_number == 60 else "seconds"
        raise ValueError(
            f"{name} is {text!r}, and can be a time as Slurm writes it: {unit}, hours:minutes:seconds, days-hours; in "
            "quotes, or YAML takes 1:30 for a number"
        )
    days, *rest = found.groups()
    parts = [int(part) for part in rest if part is not None]
    if days is not None:
        hours, minutes, seconds = [*parts, 0, 0][:3]
        return (int(days) * 24 + hours) * 3600 + minutes * 60 + seconds
    if len(parts) == 1:
        return parts[0] * per_number
    hours, minutes, seconds = [0, *parts][-3:]
    return hours * 3600 + minutes * 60 + seconds


def _tres(name: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in text.split(","):
        match = _TRES.fullmatch(each.strip())
        if match is None:
            raise ValueError(
                f"{name} has {each.strip()!r}, and can be counts by resource: cpu=64,mem=512G,node=4,gres/gpu=8"
            )
        resource, amount = match.groups()
        if resource in found:
            raise ValueError(f"{name} has {resource} twice; leave one out")
        found[resource] = (
            f"{_mib(name, amount)}M"
            if resource in ("mem", "vmem")
            else _count(f"{name} of {resource}", amount)
        )
    return found


def _mib(name: str, amount: str) -> int:
    digits = amount.rstrip("MGTP")
    try:
        number = float(digits)
        return round(number * _MIB[amount[len(digits) :]])
    except (ValueError, KeyError):
        raise ValueError(
            f"{name} of mem is {amount!r}, and can be a size such as 512G; without a unit, MiB"
        ) from None
