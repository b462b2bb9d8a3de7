"""Facts, events and backoffs in words: what was done, what failed, and until when that is left alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tidepool.cli.explain.lines import Cell, Line
from tidepool.cli.explain.record import Health, Record, health
from tidepool.cli.show import ago, between, clock, hosts, number
from tidepool.cluster.fleet import Fleet
from tidepool.scaling.decision import (
    Action,
    Convert,
    DeleteOrphan,
    Drain,
    Launch,
    PowerFailed,
    ReleaseSlot,
    Remove,
    Repair,
    Suspend,
    Undrain,
)
from tidepool.scaling.memory import Backoff, Cause, Memory, at_location
from tidepool.scaling.ports import Intent, Result

_WORDS: Final[Mapping[type[Action], str]] = {
    Launch: "launch",
    Drain: "drain",
    Undrain: "undrain",
    Remove: "remove",
    Suspend: "suspend",
    Repair: "mend",
    DeleteOrphan: "sweep",
    ReleaseSlot: "forget",
    PowerFailed: "power failed",
}


@dataclass(frozen=True, slots=True)
class ActionView:
    """An action in words: ``jobs`` are those that it is for, ``text`` says why it failed or was not carried out."""

    what: str
    nodes: str
    number: int
    reason: str
    jobs: tuple[int, ...] = ()
    result: Result = ""
    text: str = ""


def action_view(action: Action, result: Result = "", text: str = "") -> ActionView:
    """An action in words, with what it came to."""
    nodes = nodes_of(action)
    jobs = action.jobs if isinstance(action, Launch | Convert) else ()
    what = f"convert to {action.to}" if isinstance(action, Convert) else _WORDS[type(action)]
    return ActionView(what, hosts(nodes), len(nodes), action.reason, jobs, result, text)


def nodes_of(action: Action) -> tuple[str, ...]:
    """The nodes that it is about."""
    return (action.machine.node,) if isinstance(action, DeleteOrphan) else action.nodes


_CAUSES: Final[dict[Cause, str]] = {
    "capacity": "no such machine is to be had",
    "transient": "it may work in a while",
    "permanent": "it will not work as it is asked for",
    "boot": "it never came up",
}


def backoff_words(setback: Backoff | None, now: datetime) -> str:
    """``left alone until 20:14:03 (in 40 s) after 2 failures in a row: it never came up: ...``; empty without."""
    if setback is None:
        return ""
    failed = f"{number(setback.failures, 'failure')} in a row: {_CAUSES[setback.cause]}: {setback.text}"
    if setback.until <= now:
        return f"tried again, after {failed}"
    return f"left alone until {clock(setback.until, now)} (for {between(now, setback.until)}) after {failed}"


def fleet_backoffs(fleet: Fleet, memory: Memory) -> Iterator[tuple[str, Backoff]]:
    """Yield the backoffs of a fleet, each with the infrastructure that it closes; with no name where the fleet has only one."""
    spans = len(fleet.infrastructures) > 1
    for entry in fleet.infrastructures:
        key = entry.key if spans else ""
        if setback := memory.fleet_backoffs.get(at_location(fleet.name, key)):
            yield key, setback


def fleet_backoff_words(fleet: Fleet | None, memory: Memory, now: datetime) -> str:
    """Return the backoffs of a fleet in one line; nothing for a fleet that the spec does not have any more."""
    if fleet is None:
        return ""
    return "; ".join(
        f"{key}: {backoff_words(setback, now)}" if key else backoff_words(setback, now)
        for key, setback in fleet_backoffs(fleet, memory)
    )


def is_closed(fleet: Fleet, memory: Memory, now: datetime) -> bool:
    """Return whether none of its infrastructures may be asked for a node now."""
    closed = [setback for _, setback in fleet_backoffs(fleet, memory) if setback.until > now]
    return len(closed) == len(fleet.infrastructures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The part that all explanations have: whose words they are, and how old."""

    now: datetime
    health: Health
    is_afresh: bool
    #: The time of the decision that they are of; None where nobody has decided yet.
    seen: datetime | None

    def source_line(self) -> Line:
        """Tell whose words these are, and how old."""
        health, at = self.health, self.seen
        if self.is_afresh:
            return (Cell(f"{health.words}; decided afresh just now, and nothing of it is done", "yellow"),)
        if at is None:
            return (Cell(health.words, "yellow"),)
        old = "" if health.state == "runs" else f"; {health.words}"
        paused = f"; {health.paused}" if health.paused else ""
        style = "dim" if health.is_well else "yellow"
        return (Cell(f"as the daemon saw it {ago(at, self.now)}{old}{paused}", style),)


def source(record: Record) -> dict[str, Any]:
    """Return by name the fields that every `Explanation` of ``record`` has."""
    return {
        "now": record.now,
        "health": health(record),
        "is_afresh": record.is_afresh,
        "seen": record.decided,
    }


_RESULT_STYLES: Final[dict[Result, str]] = {"": "cyan", "done": "green", "failed": "red", "overtaken": "dim"}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was done: ``what``, on which ``nodes``, why, and what it came to (empty: under way)."""

    at: datetime
    what: str
    nodes: str
    reason: str
    result: Result = ""
    ended: datetime | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of two columns."""

    name: str
    text: str
    style: str = ""


def events(intents: Iterable[Intent]) -> tuple[Event, ...]:
    """The intents as events, the newest first."""
    told = []
    for intent in intents:
        view = action_view(intent.action)
        told.append(
            Event(intent.at, view.what, view.nodes, view.reason, intent.result, intent.ended, intent.text)
        )
    return tuple(sorted(told, key=lambda event: event.at, reverse=True))


def event_lines(title: str, told: Sequence[Event], now: datetime) -> Iterator[Line]:
    """A line for each, below the title; nothing without any."""
    if told:
        yield (Cell(title, "bold"),)
    for event in told:
        took = f" after {between(event.at, event.ended)}" if event.ended else f" for {between(event.at, now)}"
        said = f": {event.text}" if event.text else ""
        yield (
            Cell(f"  {clock(event.at, now)}  ", "dim"),
            Cell(f"{event.what} {event.nodes}", "bold"),
            Cell(f": {event.reason}"),
            Cell(f"  [{event.result or 'under way'}{took}{said}]", _RESULT_STYLES[event.result]),
        )


def fact_lines(facts: Iterable[Fact]) -> Iterator[Line]:
    """A line for each, with its name before it; one that has nothing to say is left out."""
    told = [fact for fact in facts if fact.text]
    width = max((len(fact.name) for fact in told), default=0)
    for fact in told:
        yield Cell(f"  {fact.name:<{width}}  ", "dim"), Cell(fact.text, fact.style)
