"""`up` and `preview`: the spec and this machine are looked at first, then the engine goes to work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import click

from tidepool.cli import show
from tidepool.cli.cluster import parse_outputs
from tidepool.cli.operation import carry_out, exit_code, parallel, require_approval, turn
from tidepool.cli.options import json_option, parallel_option, stack_options, yes_option
from tidepool.cli.sharers import look_at_sharers
from tidepool.cli.stack import Stack
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.user_files import CANCEL_JOBS_OF

if TYPE_CHECKING:
    from tidepool.cluster.spec import ClusterSpec


@click.command("up")
@yes_option
@click.option(
    "--refresh/--no-refresh", default=True, show_default=True, help="First see what is really there."
)
@click.option(
    "--cancel-jobs-of",
    metavar="USER,...",
    default="",
    help="Users who leave the cluster, and whose jobs are cancelled with that.",
)
@parallel_option
@click.argument("engine_words", metavar="[-- ENGINE OPTIONS]", nargs=-1, type=click.UNPROCESSED)
@json_option
@stack_options
def up_verb(
    stack: Stack,
    yes: bool,
    refresh: bool,
    cancel_jobs_of: str,
    at_once: int | None,
    engine_words: tuple[str, ...],
    as_json: bool,
) -> int:
    """Bring the cluster up, or to what the spec says now.

    Before anything is created, all mistakes of the spec are told, and all that this machine lacks. A change by
    which running jobs would lose their nodes is refused. Machines that died are made again. On a terminal a preview
    is shown and you are asked, unless --yes. What stands after -- is the engine's, such as --target URN.
    """
    require_approval(stack, yes, "up")
    words = [
        # They are for programs, and long: all of the spec and who may log in.
        "--suppress-outputs",
        *(["--yes", "--skip-preview"] if yes else []),
        *(["--refresh"] if refresh else []),
        *parallel(at_once),
        *engine_words,
    ]
    settings = {CANCEL_JOBS_OF: cancel_jobs_of} if cancel_jobs_of else {}
    return _carried_out(stack, "up", words, as_json, turn(stack), settings)


@click.command("preview")
@click.option(
    "--refresh/--no-refresh", default=False, show_default=True, help="First see what is really there."
)
@click.option("--diff", is_flag=True, help="All differences in detail.")
@parallel_option
@click.argument("engine_words", metavar="[-- ENGINE OPTIONS]", nargs=-1, type=click.UNPROCESSED)
@json_option
@stack_options
def preview_verb(
    stack: Stack,
    refresh: bool,
    diff: bool,
    at_once: int | None,
    engine_words: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show what `up` would do, and change nothing.

    What `up` would refuse is refused here as well. What stands after -- is the engine's.
    """
    words = [
        *(["--refresh"] if refresh else []),
        *(["--diff"] if diff else []),
        *parallel(at_once),
        *engine_words,
    ]
    return _carried_out(stack, "preview", words, as_json, nullcontext())


def _carried_out(
    stack: Stack,
    verb: str,
    words: Sequence[str],
    as_json: bool,
    in_turn: AbstractContextManager[None],
    settings: Mapping[str, str] = FrozenDict(),
) -> int:
    """Look that nothing is against it, have the engine do it, and give the exit code."""
    from tidepool.cli.stack_spec import check_machine, described_spec

    with stack.without_new_encryptionsalt():
        spec = described_spec(stack)
        stack.prepare()
        check_machine(spec, stack)
        with in_turn:
            _look_at_cluster(stack, spec)
            outcome = carry_out(stack, verb, *words, counted=as_json, aside=as_json, settings=settings)
    if as_json:
        show.emit(outcome.document(outputs=stack.outputs() or {}))
    return exit_code(outcome.code)


def _look_at_cluster(stack: Stack, spec: ClusterSpec) -> None:
    """Have the stack there, if only empty, and the cluster such that ``spec`` loses no jobs.

    Raises:
        Failure: jobs would be lost.
    """
    from tidepool.cli.jobs import refuse_lost_jobs

    outputs = stack.outputs()
    if outputs is None:
        stack.create()
    elif "controller" in outputs:
        refuse_lost_jobs(stack, parse_outputs(stack.name, outputs), spec)
        look_at_sharers(stack, outputs, spec)
    if spec.pools or (outputs or {}).get("pools"):
        from tidepool.cli.pools.checks import look_at_pools

        look_at_pools(stack, outputs or {}, spec)
