"""`watch`: how the cluster breathes, as the scaler's journal tells it, in lines that fit a terminal. It costs Slurm nothing."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from tidepool.cli import errors, show
from tidepool.cli.explain.budgets import budget_lines
from tidepool.cli.explain.lines import Cell, Glyphs, Line, bar, columns, drawn, give, glyphs_for
from tidepool.cli.explain.record import Record, Source
from tidepool.cli.explain.watch_view import (
    CostView,
    DecisionView,
    FleetView,
    QueueView,
    UnderWay,
    WaitingPodsView,
    WaitingView,
    WatchView,
    watching,
)
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.show import between, clock, span, usd
from tidepool.cli.stack import Stack
from tidepool.cluster.roles import Role
from tidepool.scaling.decision import Phase, Standing
from tidepool.scaling.ports import JournalError

_LEAST_EVERY_S: Final = 0.2
_EVERY_S: Final = 0.5
#: Of a very large cluster a look takes a while; it rests so many times as long, whatever was asked for.
_REST: Final = 3


@click.command("watch")
@click.option("--once", is_flag=True, help="One frame, and the end. So it is without a terminal.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=_LEAST_EVERY_S),
    default=_EVERY_S,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@json_option
@stack_options
def watch_verb(stack: Stack, once: bool, every_s: float, as_json: bool) -> int:
    """Show how the cluster breathes: queue, fleets, what is under way, cost and the last decisions, until Ctrl-C.

    All of it is the daemon's own look; Slurm is not asked. The exit code of one frame is 3 where no daemon runs.
    """
    with Source(stack) as source:
        if as_json or once or not sys.stdout.isatty():
            view = watching(source.read())
            give(view, frame(view, columns(), None, glyphs_for(sys.stdout.encoding)), as_json=as_json)
            return errors.OK if view.health.state in ("runs", "late") else errors.NOT_THERE
        live(source.read, show.console(sys.stdout), every_s, threading.Event().wait)
    return errors.OK


def live(read: Callable[[], Record], console: Any, every_s: float, wait: Callable[[float], object]) -> None:
    """Show what is read on ``console``, until Ctrl-C; look again after each ``wait`` of ``every_s`` seconds.

    What is wrong at the beginning is raised; later, the view stays, and says what is wrong.

    Raises:
        JournalError: the journal cannot be read.
        Failure: there is nothing to show.
    """
    from rich.live import Live

    glyphs = glyphs_for(console.encoding)
    view, trouble = watching(read()), ""
    with Live(console=console, auto_refresh=False, screen=True) as shown, suppress(KeyboardInterrupt):
        took_s = 0.0
        while True:
            size = console.size
            shown.update(drawn(frame(view, size.width, size.height, glyphs, trouble)), refresh=True)
            wait(max(every_s, took_s * _REST))
            began_s = time.monotonic()
            try:
                view, trouble = watching(read()), ""
            except JournalError as error:
                trouble = f"{error}; what follows is of {clock(view.now, view.now)}"
            took_s = time.monotonic() - began_s


#: Less cannot hold what matters.
LEAST_COLUMNS: Final = 40
LEAST_LINES: Final = 10

_STANDING_STYLES: Final[dict[Standing, str]] = {
    "coming": "cyan",
    "room": "green",
    "setback": "yellow",
    "limit": "yellow",
    "held": "dim",
    "never": "red",
}


#: A machine of a pool by its role (None: on its way), its style, and how people say it.
_ROLES: Final[dict[Role | None, tuple[str, str, str]]] = {
    "slurm": ("S", "cyan", "Slurm"),
    "kubernetes": ("K", "magenta", "Kubernetes"),
    None: (">", "yellow", "on their way"),
}

#: What an action came to, where that is worth a word.
_BAD: Final = ("failed", "overtaken")


@dataclass(frozen=True, slots=True)
class Section:
    """Lines below a title. Where there is too little room, ``least`` of them stay, and a line tells of the rest."""

    title: str
    lines: tuple[Line, ...]
    least: int = 1
    rest: str = "more"


def frame(view: WatchView, columns: int, lines: int | None, glyphs: Glyphs, trouble: str = "") -> list[Line]:
    """Lay the view out for a terminal of that size; ``lines`` None: as many as there are to be.

    ``trouble`` says why the view is not the newest.
    """
    if columns < LEAST_COLUMNS or (lines is not None and lines < LEAST_LINES):
        said = f"{columns}x{lines} is too small a terminal: {LEAST_COLUMNS}x{LEAST_LINES} at least"
        return [_cut((Cell(said),), columns, glyphs)]
    head = [*([(Cell(trouble, "bold red"),)] if trouble else []), *_head(view)]
    sections = _fitted(list(_sections(view, columns, glyphs)), None if lines is None else lines - len(head))
    drawn = [*head]
    for section in sections:
        if section.title:
            drawn.append((Cell(section.title, "bold"),))
        drawn += section.lines
    return [_cut(line, columns, glyphs) for line in drawn[:lines]]


def _head(view: WatchView) -> Iterator[Line]:
    named = view.cluster if view.cluster == view.stack else f"{view.cluster} (stack {view.stack})"
    yield Cell(named, "bold"), Cell(f"  {clock(view.now, view.now)}", "dim")
    well = view.health
    if view.is_afresh:
        yield (Cell("decided afresh just now; nothing of it is done", "yellow"),)
    style = "green" if well.state == "runs" else "bold red" if well.state == "stopped" else "yellow"
    yield (Cell(well.words + (f"; {well.remedy}" if well.remedy else ""), style),)
    for complaint in well.trouble:
        yield (Cell(complaint, "bold yellow"),)
    if well.paused:
        yield (Cell(well.paused, "bold yellow"),)
    if well.is_stale and well.age_s is not None and not view.is_afresh:
        yield (Cell(f"what follows is {span(well.age_s)} old", "yellow"),)


def _sections(view: WatchView, columns: int, glyphs: Glyphs) -> Iterator[Section]:
    if view.queue is not None:
        yield Section("", (_queue(view.queue),))
    if view.cost is not None:
        yield Section("", (_cost(view.cost),))
    decided = (line for each in view.decisions for line in _decision(each, view))
    for title, lines, least, rest in (
        ("fleets", _fleets(view.fleets, columns, glyphs), 3, "more fleets"),
        ("pools", _pools(view), 2, "more of pools"),
        ("budgets", budget_lines(view.budgets, view.now), 2, "more budgets"),
        ("can never run", map(_never, view.never), 1, "more limits that jobs break"),
        ("under way", (_under_way(each, view) for each in view.under_way), 2, "more under way"),
        ("waiting", map(_waiting, view.waiting), 2, "more reasons"),
        ("pods that wait", map(_waiting, view.waiting_pods), 1, "more reasons"),
        ("last decisions", decided, 2, "earlier ones"),
    ):
        if shown := tuple(lines):
            yield Section(title, shown, least, rest)


def _queue(queue: QueueView) -> Line:
    cells = [Cell("queue    "), Cell(f"{queue.waits:,} waiting")]
    for name, count in queue.waiting.items():
        cells += [Cell(" (" if len(cells) == 2 else ", "), Cell(f"{count:,} {name}", _STANDING_STYLES[name])]
    if queue.waiting:
        cells.append(Cell(")"))
    if queue.running is not None:
        cells.append(Cell(f", {queue.running:,} running"))
    return tuple(cells)


def _cost(cost: CostView) -> Line:
    if not cost.is_priced:
        return Cell("cost     "), Cell("no price is set (price_usd_per_hour), so none is counted", "dim")
    cap = f" of {usd(cost.cap_usd_per_hour)}" if cost.cap_usd_per_hour is not None else ""
    budget = f" of {usd(cost.budget_usd)}" if cost.budget_usd is not None else ""
    over = cost.budget_usd is not None and cost.projected_usd > cost.budget_usd
    cells = [
        Cell("cost     "),
        Cell(f"{usd(cost.usd_per_hour)}{cap} an hour, {usd(cost.month_usd)}{budget} this month, "),
        Cell(f"{usd(cost.projected_usd)} by its end", "yellow" if over else ""),
    ]
    if cost.unpriced:
        cells.append(Cell(f"; no price: {', '.join(cost.unpriced)}", "dim"))
    return tuple(cells)


def _fleets(fleets: Sequence[FleetView], columns: int, glyphs: Glyphs) -> Iterator[Line]:
    name_width = max((len(fleet.name) for fleet in fleets), default=0)
    bar_width = max(10, min(32, columns // 4))
    for fleet in fleets:
        cells = [Cell(f"  {fleet.name:<{name_width}} ")]
        cells += [Cell(*piece) for piece in bar(fleet.phases, fleet.max_nodes, bar_width, glyphs)]
        cells.append(Cell(f" {fleet.there:,} there, wish {fleet.wish:,}, max {fleet.max_nodes:,}"))
        phases = ", ".join(
            f"{fleet.phases[phase]:,} {phase.value}" for phase in Phase if phase in fleet.phases
        )
        cells.append(Cell(f"  {phases}", "dim"))
        if fleet.usd_per_hour is not None:
            cells.append(Cell(f"  {usd(fleet.usd_per_hour)}/h"))
        yield tuple(cells)
        if fleet.trouble:
            yield Cell(" " * (name_width + 3)), Cell(fleet.trouble, "yellow")


def _pools(view: WatchView) -> Iterator[Line]:
    """A letter for each machine, by its role; those on their way below, each with what holds it."""
    width = max((len(pool.name) for pool in view.pools), default=0)
    for pool in view.pools:
        cells = [Cell(f"  {pool.name:<{width}} ")]
        told = []
        for role, (letter, style, name) in _ROLES.items():
            if count := pool.roles.get(role):
                cells.append(Cell(letter * count, style))
                told.append(f"{count:,} {name}")
        cells.append(Cell(f" {', '.join(told)} of {pool.machines:,}"))
        cells.append(
            Cell("  " + ", ".join(f"{count:,} {name}" for name, count in pool.standings.items()), "dim")
        )
        yield tuple(cells)
        if pool.trouble:
            yield Cell(" " * (width + 3)), Cell(pool.trouble, "yellow")
        for each in pool.moving:
            yield (
                Cell(f"    {each.node} -> {each.to}", "yellow"),
                Cell(f" {each.words}, {between(each.since, view.now)}"),
                Cell(f"  {each.by}: {each.reason}", "dim"),
            )
            for held in each.holds:
                yield (Cell(f"      {held}" + (f", {each.what_comes}" if each.what_comes else ""), "yellow"),)


def _never(group: WaitingView) -> Line:
    return Cell(f"  {group.named}: ", "red"), Cell(group.reason)


def _waiting(group: WaitingView | WaitingPodsView) -> Line:
    return (
        Cell(f"  {group.standing:<8}", _STANDING_STYLES[group.standing]),
        Cell(f"{group.named}: ", "bold"),
        Cell(group.reason),
    )


def _under_way(each: UnderWay, view: WatchView) -> Line:
    cells = [
        Cell(f"  {each.what:<8}"),
        Cell(f" {each.nodes}", "bold"),
        Cell(f" {between(each.since, view.now)}"),
    ]
    if each.deadline is not None:
        left_s = (each.deadline - view.now).total_seconds()
        late = left_s < 0
        cells.append(
            Cell(f", {span(abs(left_s))} {'past its time' if late else 'left'}", "red" if late else "dim")
        )
    if each.why:
        cells.append(Cell(f"  {each.why}", "dim"))
    return tuple(cells)


def _decision(decision: DecisionView, view: WatchView) -> Iterator[Line]:
    for action in decision.actions:
        yield (
            Cell(f"  {clock(decision.at, view.now)} ", "dim"),
            Cell(f"{action.what} {action.nodes}"),
            Cell(f": {action.reason}", "dim"),
            *([Cell(f"  [{action.result}: {action.text}]", "red")] if action.result in _BAD else []),
        )


def _fitted(sections: list[Section], room: int | None) -> list[Section]:
    """The sections, cut so that together they are no longer than ``room``; each in turn is given one line more."""
    if room is None:
        return sections
    shown = [min(section.least, len(section.lines)) for section in sections]
    taken = sum(shown) + sum(bool(section.title) for section in sections)
    grown = True
    while taken < room and grown:
        grown = False
        for place, section in enumerate(sections):
            if taken < room and shown[place] < len(section.lines):
                shown[place] += 1
                taken += 1
                grown = True
    return [_cut_section(section, count) for section, count in zip(sections, shown, strict=True)]


def _cut_section(section: Section, count: int) -> Section:
    left = len(section.lines) - count
    if not left:
        return section
    if count <= 1:
        # The line that tells of the rest would take the only one's place: it stands beside the title.
        title = f"{section.title} (and {left:,} {section.rest})"
        return replace(section, title=title, lines=section.lines[:count])
    rest: Line = (Cell(f"  and {left + 1:,} {section.rest}", "dim"),)
    return replace(section, lines=(*section.lines[: count - 1], rest))


def _cut(line: Iterable[Cell], columns: int, glyphs: Glyphs) -> Line:
    """No longer than the terminal is wide."""
    kept: list[Cell] = []
    left = columns
    for cell in line:
        if len(cell.text) > left:
            kept.append(Cell(cell.text[: max(left - 1, 0)] + (glyphs.cut if left else ""), cell.style))
            break
        kept.append(cell)
        left -= len(cell.text)
    return tuple(kept)
