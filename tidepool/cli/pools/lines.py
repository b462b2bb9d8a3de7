"""Pools as lines for a person. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tidepool.cli.pools.view import ConversionView, MachineView, PoolsView, PoolView, both_roles
from tidepool.cli.scaler.conversion_words import moment, work_words
from tidepool.cli.scaler.frame import Cell, Line
from tidepool.cli.scaler.words import between

_AT_DEADLINE = {"stop": "then it is given up", "force": "then jobs are requeued and pods killed"}
_ROLE_STYLES = {"slurm": "cyan", "kubernetes": "magenta"}


def pools_lines(view: PoolsView) -> Iterator[Line]:
    """All of it."""
    for trouble in view.trouble:
        yield (Cell(trouble, "bold red"),)
    for node in both_roles(view):
        yield (
            Cell(f"{node} is a node of Slurm's and of Kubernetes', with no conversion under way", "bold red"),
        )
    for pool in view.pools:
        yield from pool_lines(pool, view.now)


def pool_lines(pool: PoolView, now: datetime) -> Iterator[Line]:
    """One, with a line for each of its machines, and more for those that are on their way."""
    yield Cell(f"pool {pool.pool}", "bold"), Cell(": " + ", ".join(_counts(pool)))
    width = max(len(machine.node) for machine in pool.machines)
    for machine in pool.machines:
        yield _head(machine, width, now)
        for work in machine.work:
            yield (Cell(f"      {work_words(work)}", "dim"),)
        if machine.conversion is not None:
            yield from conversion_lines(machine.conversion, now, "      ")


def conversion_lines(going: ConversionView, now: datetime, indent: str = "  ") -> Iterator[Line]:
    """How far it is, what holds it, until when, and what comes then."""
    kind = "forced" if going.is_forced else "graceful"
    yield (
        Cell(f"{indent}-> {going.to}", "bold yellow"),
        Cell(f" {going.words}, for {between(going.since, now)} in all ({kind}, {going.by}: {going.reason})"),
    )
    for held in going.holds:
        yield (Cell(f"{indent}   {held}", "yellow"),)
    if going.deadline is not None:
        yield (
            Cell(f"{indent}   until {moment(going.deadline, now)}; {_AT_DEADLINE[going.at_deadline]}", "dim"),
        )


def _counts(pool: PoolView) -> Iterator[str]:
    for role, count in pool.count.items():
        yield f"{count} {'serves' if count == 1 else 'serve'} {role} ({pool.least[role]} to {pool.most[role]})"


def _head(machine: MachineView, width: int, now: datetime) -> Line:
    since = f" since {moment(machine.since, now)}" if machine.since else ""
    cells = [
        Cell(f"  {machine.node:<{width}}  ", "bold"),
        Cell(f"{machine.role}{since}", _ROLE_STYLES[machine.role]),
        Cell(f"  Slurm: {machine.slurm}, Kubernetes: {machine.kubernetes}"),
    ]
    if machine.last:
        cells.append(Cell(f"  last conversion {machine.last}", "yellow"))
    return tuple(cells)
