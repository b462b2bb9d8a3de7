"""The explanations of a pool's machine and of a pod, in words, with the conversions that concern them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tidepool.cli.explain.facts import Explanation, Fact, backoff_words, fact_lines, source
from tidepool.cli.explain.lines import ENDINGS, Cell, Line, moment, phases, took_s, way, work_words
from tidepool.cli.explain.record import Record
from tidepool.cli.pools.view import ConversionView, MachineView, conversion_lines, conversion_view
from tidepool.cli.show import between, first, span
from tidepool.clients.kubernetes.objects import Pod, Requirement, Resources
from tidepool.cluster.roles import Role
from tidepool.conversion.record import Conversion, Phase, Work


@dataclass(frozen=True, slots=True)
class PastConversion:
    """A conversion that ended: who ordered it and why, what it came to, and what became of the work that was there."""

    id: int
    at: datetime
    way: str
    by: str
    reason: str
    phase: Phase
    text: str
    took_s: float | None
    phases: tuple[tuple[str, float], ...]
    work: tuple[Work, ...]


@dataclass(frozen=True, slots=True)
class MachineWhy(Explanation):
    """The explanation of a pool's machine. ``standing`` and ``reason`` are the scaler's, empty where it said none."""

    node: str
    pool: str
    machine: MachineView
    standing: str
    reason: str
    to: Role | None
    setback: str
    history: tuple[PastConversion, ...]


@dataclass(frozen=True, slots=True)
class InTheWay:
    """A conversion that something is in the way of: which machine's, and how it stands."""

    node: str
    conversion: ConversionView


def why_machine(
    record: Record, pool: str, machine: MachineView, conversions: Sequence[Conversion]
) -> MachineWhy:
    """Explain ``machine``, of which ``conversions`` are, the newest first."""
    decision, now = record.decision, record.now
    view = decision.machines.get(machine.node) if decision else None
    setback = decision.memory.pools.backoffs.get(machine.node) if decision else None
    return MachineWhy(
        node=machine.node,
        pool=pool,
        machine=machine,
        standing=view.standing if view else "",
        reason=view.reason if view else "",
        to=view.to if view else None,
        setback=backoff_words(setback, now),
        history=tuple(_past(each) for each in conversions if not each.is_under_way),
        **source(record),
    )


def machine_lines(why: MachineWhy) -> Iterator[Line]:
    """Yield the explanation for a person."""
    machine = why.machine
    yield Cell(f"machine {why.node}", "bold"), Cell(f" of pool {why.pool}")
    since = f", since {moment(machine.since, why.now)}" if machine.since else ""
    yield (Cell(f"It serves {machine.role}{since}."),)
    if machine.conversion is not None:
        yield from conversion_lines(machine.conversion, why.now)
    yield from fact_lines(
        [
            Fact("scaler", ": ".join(filter(None, (why.standing, why.reason)))),
            Fact("set back", why.setback, "red"),
            Fact("Slurm", machine.slurm),
            Fact("Kubernetes", machine.kubernetes),
            *(Fact("there", work_words(work)) for work in machine.work),
        ]
    )
    if why.history:
        yield (Cell("conversions", "bold"),)
        for past in why.history:
            yield from _past_lines(past, why.now)
    yield why.source_line()


def in_the_way(
    conversions: Iterable[Conversion], kind: Literal["job", "pod"], name: str
) -> tuple[InTheWay, ...]:
    """The conversions under way that wait for a job or a pod."""
    return tuple(
        InTheWay(each.order.node, conversion_view(each))
        for each in conversions
        if each.is_under_way
        and any(work.kind == kind and work.name == name and work.fate == "runs" for work in each.work)
    )


def in_the_way_lines(waits: Iterable[InTheWay], now: datetime) -> Iterator[Line]:
    """Yield for each which machine waits, until when, and what comes then."""
    for each in waits:
        yield (Cell(f"{each.node}, where it runs, is to serve {each.conversion.to}", "bold yellow"),)
        yield from conversion_lines(each.conversion, now)


def _past(conversion: Conversion) -> PastConversion:
    order = conversion.order
    return PastConversion(
        id=conversion.id,
        at=order.at,
        way=way(conversion),
        by=order.by,
        reason=order.reason,
        phase=conversion.phase,
        text=conversion.text,
        took_s=took_s(conversion),
        phases=tuple(phases(conversion).items()),
        work=conversion.work,
    )


def _past_lines(past: PastConversion, now: datetime) -> Iterator[Line]:
    took = f" after {span(past.took_s)}" if past.took_s is not None else ""
    said = f": {past.text}" if past.text else ""
    yield (
        Cell(f"  {moment(past.at, now)}  ", "dim"),
        Cell(past.way, "bold"),
        Cell(f" by {past.by}: {past.reason}"),
        Cell(f"  [{past.phase}{took}{said}]", ENDINGS.get(past.phase, "")),
    )
    for work in past.work:
        if work.fate not in ("runs", "ended"):
            yield (Cell(f"      {work_words(work)}", "dim"),)


_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class PodWhy(Explanation):
    """The explanation of a pod. ``standing`` and ``reason`` are the scaler's, empty where it said none of it."""

    pod: str
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


def why_pod(record: Record, pod: Pod, conversions: Iterable[Conversion]) -> PodWhy:
    """Explain ``pod``."""
    decision = record.decision
    waiting = decision.waiting_pods.get(pod.key) if decision and not pod.node else None
    return PodWhy(
        pod=pod.key,
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
        **source(record),
    )


def pod_lines(why: PodWhy) -> Iterator[Line]:
    """Yield the explanation for a person."""
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
    yield why.source_line()


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
    return f"pods that wait: {first(waiting, most)}" if waiting else "no pod waits"
