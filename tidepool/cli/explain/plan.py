"""`plan`: what the scaler would do now, what it would cost, and Pulumi's preview of it. Nothing is done."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime

import click

from tidepool.cli.explain.facts import action_view, nodes_of
from tidepool.cli.explain.lines import Cell, Line, give
from tidepool.cli.explain.record import Health, Record, Source, health
from tidepool.cli.explain.watch_view import WaitingView, is_priced, usd_per_hour, waiting_views
from tidepool.cli.jobs import ids_text
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.scaler_ports import preview, recompute
from tidepool.cli.show import number, usd
from tidepool.cli.stack import Stack
from tidepool.scaling.decision import Action, Decision, Launch, Remove, Repair, Suspend


@click.command("plan")
@click.option(
    "--preview/--no-preview",
    "with_preview",
    default=True,
    help="Whether to show Pulumi's preview of the nodes.",
)
@json_option
@stack_options
def plan_verb(stack: Stack, with_preview: bool, as_json: bool) -> None:
    """Show what the scaler would do now, for which jobs, and what it would cost. Nothing of it is done.

    It looks at the queue afresh, whether a daemon runs or not.
    """
    with Source(stack) as source:
        record = recompute(stack, source)
    decision = record.decision
    assert decision is not None
    nodes = nodes_to_change(decision)
    previewed = preview(stack, decision, nodes) if with_preview and nodes else None
    plan = planning(record, decision, previewed)
    give(plan, plan_lines(plan), as_json=as_json)


@dataclass(frozen=True, slots=True)
class Planned:
    """An action that would be taken. ``jobs`` are all that it serves.

    ``usd_per_hour`` is what it costs more an hour (less: negative); None where its fleet has no price, and 0 where it
    changes nothing of that.
    """

    what: str
    nodes: str
    number: int
    reason: str
    jobs: tuple[int, ...]
    usd_per_hour: float | None


@dataclass(frozen=True, slots=True)
class PlanView:
    """Actions that would be taken now. ``preview`` is Pulumi's, None where it was not asked for or there is none to make."""

    stack: str
    now: datetime
    actions: tuple[Planned, ...]
    #: What is paid an hour now, and when all of it is done; None where no fleet has a price.
    usd_per_hour: float | None
    usd_per_hour_after: float | None
    waiting: tuple[WaitingView, ...]
    health: Health
    preview: str | None = None


def planning(record: Record, decision: Decision, preview: str | None = None) -> PlanView:
    """Work out a plan of ``decision``, which is that of ``record``."""
    actions = tuple(_planned(record, decision, action) for action in decision.actions)
    counted = record.spec is not None and any(map(is_priced, record.spec.fleets))
    more = sum(each.usd_per_hour or 0 for each in actions)
    now_usd = decision.cost.usd_per_hour
    return PlanView(
        record.stack,
        record.now,
        actions,
        now_usd if counted else None,
        now_usd + more if counted else None,
        tuple(waiting_views(record)),
        health(record),
        preview,
    )


def nodes_to_change(decision: Decision) -> tuple[str, ...]:
    """The nodes that an `up` would make or take away: what a preview is of."""
    changed = {
        node
        for action in decision.actions
        if isinstance(action, Launch | Remove | Suspend | Repair)
        for node in nodes_of(action)
    }
    return tuple(sorted(changed))


def plan_lines(plan: PlanView) -> Iterator[Line]:
    """Yield the plan for a person."""
    yield (Cell(f"what would happen now (stack {plan.stack}); nothing of it is done", "bold"),)
    if not plan.actions:
        yield (Cell("  nothing: all is as it should be", "green"),)
    for action in plan.actions:
        serves = f"  for {number(len(action.jobs), 'job')}: {ids_text(action.jobs, 5)}" if action.jobs else ""
        yield (
            Cell(f"  {action.what:<8} ", "cyan"),
            Cell(f"{action.nodes} ({action.number:,})", "bold"),
            Cell(f": {action.reason}"),
            Cell(serves, "dim"),
            Cell(f"  {_money(action)}", "dim"),
        )
    if plan.usd_per_hour is None or plan.usd_per_hour_after is None:
        yield (Cell("  no price is set (price_usd_per_hour), so no cost is counted", "dim"),)
    else:
        yield (Cell(f"  {usd(plan.usd_per_hour)} an hour now, {usd(plan.usd_per_hour_after)} then"),)
    if plan.waiting:
        yield (Cell("what would be left waiting", "bold"),)
        for group in plan.waiting:
            style = "red" if group.standing == "never" else ""
            yield Cell(f"  {group.standing:<8} ", style), Cell(f"{group.named}: ", "bold"), Cell(group.reason)
    if plan.preview is not None:
        yield (Cell("Pulumi's preview of these nodes", "bold"),)
        yield from ((Cell(f"  {line}"),) for line in plan.preview.strip().splitlines())
    yield (Cell(plan.health.words, "dim"),)
    if plan.health.paused:
        yield (Cell(plan.health.paused, "yellow"),)


def _planned(record: Record, decision: Decision, action: Action) -> Planned:
    view = action_view(action)
    return Planned(
        view.what,
        view.nodes,
        view.number,
        view.reason,
        _served(decision, {*nodes_of(action)}, view.jobs) if isinstance(action, Launch) else (),
        _usd_per_hour(record, action),
    )


def _served(decision: Decision, nodes: Collection[str], named: Collection[int]) -> tuple[int, ...]:
    """The jobs that would run on ``nodes``; an action itself names but a few."""
    served = {each.job_id for each in decision.waiting.values() if not {*each.nodes}.isdisjoint(nodes)}
    return tuple(sorted(served | {*named}))


def _usd_per_hour(record: Record, action: Action) -> float | None:
    if not isinstance(action, Launch | Remove | Suspend):
        return 0
    fleet = record.fleet(action.fleet)
    if fleet is None or not is_priced(fleet):
        return None
    if isinstance(action, Launch):
        there = dict.fromkeys(action.nodes, action.location) if action.location else {}
        return usd_per_hour(fleet, action.nodes, there)
    return -usd_per_hour(fleet, action.nodes, record.memory.locations)


def _money(action: Planned) -> str:
    if action.usd_per_hour is None:
        return "no price"
    sign = "+" if action.usd_per_hour > 0 else "-"
    return f"{sign}{usd(abs(action.usd_per_hour))}/h" if action.usd_per_hour else ""
