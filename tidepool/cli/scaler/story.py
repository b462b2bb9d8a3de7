"""What was done for a job, a node or a fleet, one event after another, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tidepool.cli.scaler.frame import Cell, Line
from tidepool.cli.scaler.health import Health
from tidepool.cli.scaler.watching import action_view
from tidepool.cli.scaler.words import ago, between, clock
from tidepool.scaling.ports import Intent, Result

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


def event_lines(told: Iterable[Event], now: datetime) -> Iterator[Line]:
    """A line for each."""
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


def source_line(health: Health, is_afresh: bool, at: datetime | None, now: datetime) -> Line:
    """Whose words these are, and how old."""
    if is_afresh:
        return (Cell(f"{health.words}; decided afresh just now, and nothing of it is done", "yellow"),)
    if at is None:
        return (Cell(health.words, "yellow"),)
    old = "" if health.state == "runs" else f"; {health.words}"
    paused = f"; {health.paused}" if health.paused else ""
    return (Cell(f"as the daemon saw it {ago(at, now)}{old}{paused}", "dim" if health.is_well else "yellow"),)
