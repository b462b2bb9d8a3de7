"""The machines that may leave a side now, in the order in which they go, and why the others stay, in words. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final

from tidepool.cluster.hostlist import fold
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.roles import Role
from tidepool.conversion.next_step import other
from tidepool.scaling.decide.packing.launch_limits import Spare
from tidepool.scaling.decide.pools.machine_status import MachineStatus, Survey
from tidepool.scaling.memory import Backoff

#: What a person moved, or kept from moving, stays for so long at least, where `minimum_stay_s` is shorter.
PERSONS_STAY: Final = timedelta(minutes=10)
_GROUPS: Final = 3
_SERVES: Final = frozenset({"busy", "idle", "held"})


def missing(pool: ConvergedPool, survey: Survey, to: Role) -> tuple[int, str]:
    """Return how many machines are to go to ``to`` without any demand, and the limit that says so."""
    away = other(to)
    least, most = pool.least(to), pool.most(away)
    too_few, too_many = least - _on(pool, survey, to), _on(pool, survey, away) - most
    return (too_few, f"{to}_min is {least}") if too_few >= too_many else (too_many, f"{away}_max is {most}")


def stays(status: MachineStatus, pool: ConvergedPool, backoffs: Mapping[str, Backoff], at: datetime) -> str:
    """Why a machine that is idle does not leave its side yet, in words; empty where it may."""
    if (backoff := _backoff(status, backoffs, at)) is not None:
        return f"left alone until {backoff.until:%H:%M:%S} UTC, for its conversion failed: {backoff.text}"
    if status.since is not None:
        stay = timedelta(seconds=pool.minimum_stay_s)
        if status.wanted and stay < PERSONS_STAY:
            stay, why = PERSONS_STAY, status.wanted
        else:
            why = f"minimum_stay_s is {pool.minimum_stay_s}"
        if at < status.since + stay:
            return f"stays until {status.since + stay:%H:%M:%S} UTC: {why}"
    idle_s = (at - (status.idle_since or at)).total_seconds()
    return f"idle for {idle_s:.0f} of {pool.idle_s} s" if idle_s < pool.idle_s else ""


def leaving(
    pool: ConvergedPool,
    survey: Survey,
    to: Role,
    *,
    needed: Collection[str],
    last: Collection[str],
    backoffs: Mapping[str, Backoff],
    at: datetime,
) -> Spare:
    """Return who may go to ``to``. ``needed`` stay for what waits on their own side; those in ``last`` go after all others."""
    if survey.unseen:
        return Spare((), f"{survey.unseen}, so no machine of pool {pool.name} moves", "setback")
    free: list[MachineStatus] = []
    why_not: dict[str, list[str]] = {}
    backs_off = True
    for status in survey.of(pool.name):
        if status.side == to:
            continue
        why = _busy(status) if status.standing != "idle" else stays(status, pool, backoffs, at)
        if not why and status.name in needed:
            why = "needed there"
        if why:
            why_not.setdefault(why, []).append(status.name)
            backs_off = backs_off and status.standing == "idle" and _backoff(status, backoffs, at) is not None
        else:
            free.append(status)
    free.sort(key=lambda each: (each.name in last, bool(each.wanted), each.idle_since, each.number))
    headroom, limit = _headroom(pool, survey, to)
    names = tuple(status.name for status in free[: max(0, headroom)])
    obstacles = [limit] if headroom < len(free) + len(why_not) and headroom <= len(names) else []
    # Those that hold most of them first.
    held = sorted(why_not.items(), key=lambda each: (-len(each[1]), each[0]))
    obstacles += [f"{fold(those)} {why}" for why, those in held[:_GROUPS]]
    more = len(why_not) - _GROUPS
    obstacles += [f"and {more} reasons more"] if more > 0 else []
    what = f"no more machines of pool {pool.name} move to {to}"
    text = f"{what}: {'; '.join(obstacles)}" if obstacles else f"{what}: all are there"
    return Spare(names, text, "setback" if backs_off and why_not and not free else "limit")


def _backoff(status: MachineStatus, backoffs: Mapping[str, Backoff], at: datetime) -> Backoff | None:
    """Return the backoff for which a machine is left alone now."""
    backoff = backoffs.get(status.name)
    return backoff if backoff is not None and backoff.until > at else None


def full(pool: ConvergedPool, survey: Survey, to: Role) -> str:
    """The limit by which no machine may go to ``to``; empty where one may."""
    headroom, limit = _headroom(pool, survey, to)
    return limit if headroom <= 0 else ""


def _headroom(pool: ConvergedPool, survey: Survey, to: Role) -> tuple[int, str]:
    """Return how many more there may be on a side, and the limit that says so."""
    away = other(to)
    least, most = pool.least(away), pool.most(to)
    # What comes does not serve yet, and what is ill may not come back.
    here = sum(status.role == away and status.standing in _SERVES for status in survey.of(pool.name))
    to_spare, to_fill = here - least, most - _on(pool, survey, to)
    return (to_spare, f"{away}_min is {least}") if to_spare <= to_fill else (to_fill, f"{to}_max is {most}")


def _on(pool: ConvergedPool, survey: Survey, role: Role) -> int:
    """Return how many machines are, or will be, on a side."""
    return sum(status.side == role for status in survey.of(pool.name))


def _busy(status: MachineStatus) -> str:
    words = {"busy": "busy", "moving": f"on the way to {status.to}", "unknown": "not to be seen"}
    return words.get(status.standing, f"{status.standing} ({status.why})")
