"""`lab run`: a laboratory's campaign from its beginning, or from where it was cut off, to its end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidepool.cli import errors, show
from tidepool.cli.lab.folders import campaign_folder
from tidepool.cli.options import stack_options
from tidepool.cli.stack import Stack

if TYPE_CHECKING:
    from tidepool.lab.campaign import Trial
    from tidepool.lab.drive import Drive, Tried


@click.command("run")
@click.argument("campaign", required=False)
@click.option(
    "--only",
    multiple=True,
    metavar="SCHEDULER/WORKLOAD",
    help="Only these trials: SCHEDULER, SCHEDULER/WORKLOAD or /WORKLOAD. Said again, several.",
)
@stack_options
def run_verb(stack: Stack, campaign: str | None, only: Sequence[str]) -> int:
    """Run the campaign of a laboratory, or go on with it.

    CAMPAIGN is its folder below results/lab, by default of the stack's name. The stack is brought up first. Each trial that ended is kept at once, and not run again: a campaign that was killed goes on when
    it is run again. The exit code is 1 where trials are missing at the end.
    """
    stack.require_root()
    stack.prepare()
    from tidepool.cli.lab.bench import make_bench, refuse_disturbed
    from tidepool.cli.lab.machines import LabMachines
    from tidepool.cli.lab.opening import (
        begin_results,
        begun_results,
        open_laboratory,
        refuse_lacking,
        selected,
    )
    from tidepool.cli.lab.programs import build_programs
    from tidepool.images import ImageStore
    from tidepool.lab.drive import drive
    from tidepool.lab.processor_claim import claim

    folder = campaign_folder(stack, campaign)
    opened = open_laboratory(stack, folder.name)
    wanted = selected(opened.campaign, only)
    begun = begun_results(opened, folder)
    if begun is not None and begun.is_whole:
        show.tell(f"campaign {folder.name} is whole already; `tidepool lab run NAME` measures again")
        return errors.OK
    with claim(opened.processors):
        refuse_disturbed(opened.laboratory, opened.testbed)
        results = begun or begin_results(opened, folder)
        machines = LabMachines(stack, opened.testbed, opened.laboratory, folder / "machines.log")
        show.tell(f"bringing up stack {stack.name}")
        machines.up()
        refuse_lacking(opened)
        build_programs(opened.programs, machines, ImageStore(stack.context.images))
        bench = make_bench(opened.laboratory, opened.testbed, machines, _tell, _tell_begun)
        done = drive(opened.laboratory, results, bench, wanted)
    return _end(done, len(results.missing()), folder)


def _tell_begun(trial: Trial, attempt: int, number: int, total: int) -> None:
    again = f", attempt {attempt}" if attempt > 1 else ""
    what = "warm-up" if trial.is_warm_up else f"repeat {trial.repeat}"
    show.tell(f"{number:3}/{total} {trial.scheduler}: {trial.workload}, {what}{again}")


def _tell(tried: Tried) -> None:
    left = f"; {show.span(tried.left_s)} left" if tried.left_s else ""
    came = f"does not count: {tried.amiss}" if tried.amiss else "done"
    show.tell(f"        {came} in {show.span(tried.lasted_s)}{left}")


def _end(done: Drive, missing: int, folder: Path) -> int:
    for trial, why in done.given_up.items():
        show.warn(f"{trial.id} was given up: {why}")
    if missing:
        show.tell_failure(
            f"campaign {folder.name} is not whole: {show.number(missing, 'trial')} missing",
            "`tidepool lab run` goes on with it; `tidepool lab show` says what is missing",
        )
        return errors.FAILED
    show.tell(f"campaign {folder.name} is whole; its results are in {folder}")
    return errors.OK
