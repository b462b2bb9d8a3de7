"""`pause` and `continue`: a person stops the scaler from acting, and lets it go on."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from tidepool.cli import show
from tidepool.cli.options import stack_options
from tidepool.cli.scaler.place import scaler_folder
from tidepool.cli.stack import Stack

if TYPE_CHECKING:
    from tidepool.scaling.ports import Journal


@click.command("pause")
@click.option("-r", "--reason", default="", help="Why, for all who look.")
@stack_options
def pause_verb(stack: Stack, reason: str) -> None:
    """Stop the scaler from acting.

    It goes on looking, and `tidepool watch` shows what it would do. An `up` that is under way comes to its end. It holds for daemons that are started later, too.
    """
    from tidepool.scaling.ports import Pause

    with _journal(stack) as journal:
        journal.pause(Pause(_person(stack.world.env), datetime.now(UTC), reason))
    show.say(f"The scaler of stack {stack.name} acts no more. `tidepool continue` lets it go on.")


@click.command("continue")
@stack_options
def continue_verb(stack: Stack) -> None:
    """Let the scaler act again."""
    with _journal(stack) as journal:
        was = journal.paused()
        journal.pause(None)
    if was is None:
        show.say(f"The scaler of stack {stack.name} was not paused.")
    else:
        show.say(f"The scaler of stack {stack.name} acts again.")


@contextmanager
def _journal(stack: Stack) -> Iterator[Journal]:
    from tidepool.scaling.journal import open_journal

    stack.require_root()
    with closing(open_journal(scaler_folder(stack), stack.world.env, stack=stack.name)) as journal:
        yield journal


def _person(env: Mapping[str, str]) -> str:
    return env.get("SUDO_USER") or env.get("USER") or getpass.getuser()
