"""`lab`: the scheduler laboratory's verbs, each imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

#: Each verb has the module of its name beside this one, in it ``NAME_verb``, and says what it does.
VERBS: Final = {
    "run": "Run the campaign of a laboratory, or go on with it.",
    "show": "Show how far a campaign is, and what came of it.",
    "report": "Write the report of a campaign: a page, on paper too, and every single value.",
    "compare": "Say what changed between two campaigns, and whether it is more than noise.",
    "phases": "Show how long machines took to be ready, by phase, on each infrastructure.",
}


class _LabVerbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        found: click.Command = getattr(import_module(f"tidepool.cli.lab.{cmd_name}"), f"{cmd_name}_verb")
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group("lab", cls=_LabVerbs, no_args_is_help=True)
def lab_verb() -> None:
    """Measure schedulers against each other, on the same machines."""
