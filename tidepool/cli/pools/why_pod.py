"""Why a pod is where it is, or nowhere yet, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidepool.cli.pools.why_machine import InTheWay, in_the_way, in_the_way_lines
from tidepool.cli.scaler.frame import Cell, Line
from tidepool.cli.scaler.health import Health, health
from tidepool.cli.scaler.record import Record
from tidepool.cli.scaler.story import Fact, fact_lines, source_line
from tidepool.cli.scaler.words import between
from tidepool.clients.kubernetes.objects import Pod, Requirement, Resources
from tidepool.conversion.record import Conversion

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class PodWhy:
    """All that is known of a pod. ``standing`` and ``reason`` are the scaler's, empty where it said none of it."""

    pod: str
    now: datetime
    phase: str
    node: str
    owner: str
    since: datetime
    asks: str
    scheduler: str
    standing: str
    reason: str
    coming: tuple[str, ...]
    in_the_way: tuple[InTheWay, ...]
    health: Health
    is_afresh: bool
    seen: datetime | None


def why_pod(record: Record, pod: Pod, conversions: Iterable[Conversion]) -> PodWhy:
    """What is known of ``pod``."""
    decision = record.decision
    waiting = decision.waiting_pods.get(pod.key) if decision and not pod.node else None
    return PodWhy(
        pod=pod.key,
        now=record.now,
        phase=pod.phase,
        node=pod.node,
        owner=pod.owner,
        since=pod.created,
        asks=", ".join(_asks(pod)),
        scheduler=pod.unschedulable,
        standing=waiting.standing if waiting else "",
        reason=waiting.reason if waiting else "",
        coming=waiting.nodes if waiting else (),
        in_the_way=in_the_way(conversions, "pod", pod.key),
        health=health(record),
        is_afresh=record.is_afresh,
        seen=decision.at if decision else None,
    )


def pod_lines(why: PodWhy) -> Iterator[Line]:
    """It, for a person."""
    yield (
        Cell(f"pod {why.pod}", "bold"),
        Cell(f" of {why.owner}" if why.owner else ", which nobody would make again"),
    )
    where = f"It is {why.phase} on {why.node}" if why.node else f"It is {why.phase}, on no node"
    yield (Cell(f"{where}, made {between(why.since, why.now)} ago."),)
    yield from in_the_way_lines(why.in_the_way, why.now)
    yield from fact_lines(
        [
            Fact("scaler", ": ".join(filter(None, (why.standing, why.reason)))),
            Fact("comes for it", ", ".join(why.coming)),
            Fact("scheduler", why.scheduler),
            Fact("asks for", why.asks),
        ]
    )
    yield source_line(why.health, why.is_afresh, why.seen, why.now)


def _asks(pod: Pod) -> Iterator[str]:
    yield from _amounts(pod.requests)
    yield from (f"{key}={value}" for key, value in pod.node_selector.items())
    if pod.affinity:
        yield " or ".join(" and ".join(map(_required, term)) for term in pod.affinity)


def _amounts(asked: Resources) -> Iterator[str]:
    if asked.cpu_milli:
        yield f"{asked.cpu_milli / 1000:g} CPUs"
    if asked.memory_bytes:
        yield f"{asked.memory_bytes / _MIB:,.0f} MiB"
    yield from (f"{count} {name}" for name, count in asked.extended.items())


def _required(requirement: Requirement) -> str:
    return " ".join(filter(None, (requirement.key, requirement.operator, ",".join(requirement.values))))


def known(pods: Sequence[Pod], most: int = 10) -> str:
    """The first of those that wait, for who asked for one that is not there."""
    waiting = [pod.key for pod in pods if not pod.node and not pod.has_ended]
    named = ", ".join(waiting[:most]) + (f" and {len(waiting) - most} more" if len(waiting) > most else "")
    return f"pods that wait: {named}" if waiting else "no pod waits"
