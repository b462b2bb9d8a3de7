"""The program of operators: those who look, and drain. `tidepool sudoers` writes a script that calls it as root.

Whoever calls it is not trusted: the project, its data and the environment are the script's, never the caller's.
"""

from __future__ import annotations

import copy
import grp
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from tidepool.cli.context import Context
from tidepool.cli.errors import USAGE, Failure
from tidepool.cli.main import VERBS, Verbs
from tidepool.cli.options import Choice

PROGRAM: Final = "tidepool-operator"

_COMMON: Final = frozenset({"--stack", "--json", "--help"})
#: What operators may, with which options. Whatever is not here is refused: a new verb or option, until somebody looked at
#: what it reads, writes and runs.
ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "status": _COMMON | {"--all", "--watch"},
    "watch": _COMMON | {"--once", "--every"},
    "why": _COMMON,
    "plan": _COMMON,
    "pool show": _COMMON,
    "logs": _COMMON | {"--lines", "--follow"},
    "drain": _COMMON | {"--reason"},
    "resume": _COMMON,
}
#: Of the caller's environment, after sudo looked at it: who it is, and how the terminal shows text.
_OF_THE_CALLER: Final = ("SUDO_USER", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "COLUMNS", "LINES", "NO_COLOR")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class OperatorVerbs(Verbs):
    """The verbs of `ALLOWED`; others are refused with who may."""

    administrators = ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(dict.fromkeys(name.split()[0] for name in ALLOWED))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name) if cmd_name in self.list_commands(ctx) else None
        if not isinstance(found, click.Group):
            return found and self._limited(found, cmd_name)
        group = copy.copy(found)
        group.commands = {
            name: self._limited(each, f"{cmd_name} {name}")
            for name, each in found.commands.items()
            if f"{cmd_name} {name}" in ALLOWED
        }
        return group

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in VERBS and args[0] not in self.list_commands(ctx):
            raise self._refusal(f"`{args[0]}` ({VERBS[args[0]][1].rstrip('.')})")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, VERBS[name][1]) for name in self.list_commands(ctx)])

    def _limited(self, command: click.Command, name: str) -> click.Command:
        made = copy.copy(command)
        made.params = [self._guarded(each, name) for each in command.params]
        return made

    def _guarded(self, parameter: click.Parameter, verb: str) -> click.Parameter:
        if not isinstance(parameter, click.Option) or ALLOWED[verb].intersection(parameter.opts):
            return parameter
        made = copy.copy(parameter)
        made.hidden = True

        def refuse(context: click.Context, _: click.Parameter, value: Any) -> Any:
            if context.get_parameter_source(str(made.name)) is click.core.ParameterSource.DEFAULT:
                return value
            raise self._refusal(f"`{verb} {made.opts[-1]}`")

        made.callback = refuse
        # Before the value is looked at, a file say.
        made.type = click.UNPROCESSED
        return made

    def _refusal(self, what: str) -> Failure:
        return Failure(
            f"{what} is for administrators, and this is the operators' program; nothing was changed",
            remedy=f"who may: {who_may(self.administrators)}, with `sudo tidepool`. Operators may: {', '.join(ALLOWED)}",
            code=USAGE,
        )


def who_may(group: str) -> str:
    """Return the group of administrators with its members, for people."""
    try:
        members = grp.getgrnam(group).gr_mem
    except KeyError:
        return "root"
    return f"the group {group} ({', '.join(sorted(members)) or 'which is empty'})"


@click.group(
    cls=OperatorVerbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    no_args_is_help=True,
)
@click.option("-s", "--stack", metavar="NAME", help="The stack; also after the verb.")
@click.pass_context
def operator(context: click.Context, stack: str | None) -> None:
    """Look at the cluster, and take nodes out of service and back.

    All else is for administrators.
    """
    context.obj = Choice(context.ensure_object(Context), stack)


def main(project: str, settings: Mapping[str, str], administrators: str) -> None:
    """Carry out this process's command line on the project in the folder ``project``, and end it.

    ``settings`` are Tidepool's variables; ``administrators`` is the group of those who may do more.
    """
    caller = {name: os.environ[name] for name in _OF_THE_CALLER if name in os.environ}
    env = {"PATH": _PATH, "HOME": "/root", **caller, **settings}
    os.environ.clear()
    os.environ.update(env)
    os.chdir(project)
    person = sys.stdin.isatty() and sys.stderr.isatty()
    OperatorVerbs.administrators = administrators
    operator.main(
        prog_name=PROGRAM,
        obj=Context(env, Path(project), person, owns_process=True, root=os.geteuid() == 0),
    )
