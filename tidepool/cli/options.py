"""Options that verbs share: the stack that they are about, times, and JSON."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from tidepool.cli.context import Context

if TYPE_CHECKING:
    from tidepool.cli.stack import Stack

_Verb = TypeVar("_Verb", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Choice:
    """The stack and the folder that a person named before the verb, or None."""

    context: Context
    stack: str | None = None
    folder: str | None = None

    def find(self, stack: str | None, folder: str | None) -> Stack:
        """Find the stack; what is named after the verb goes first. Errors as `tidepool.cli.stack.find_stack`."""
        from tidepool.cli.stack import find_stack

        return find_stack(self.context, stack or self.stack, folder or self.folder)

    def where(self, folder: str | None) -> Path:
        """Return the path of the folder, where one named after the verb goes first, or of the working one."""
        return self.context.cwd / (folder or self.folder or "")


def json_option(verb: _Verb) -> _Verb:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="JSON in place of tables.")(verb)


def yes_option(verb: _Verb) -> _Verb:
    """``--yes``."""
    return click.option("-y", "--yes", is_flag=True, help="Ask nothing. Needed where there is no terminal.")(
        verb
    )


def folder_option(help_text: str) -> Callable[[_Verb], _Verb]:
    """``-C``."""
    kind = click.Path(file_okay=False)
    return click.option("-C", "--cwd", "folder", metavar="DIR", type=kind, help=help_text)


_folder_option = folder_option("The project's folder; this one or one above it.")
parallel_option = click.option(
    "-p", "--parallel", "at_once", type=click.IntRange(min=1), help="Resources at once.  [default: 256]"
)


def _stack_option(help_text: str) -> Callable[[_Verb], _Verb]:
    return click.option("-s", "--stack", metavar="NAME", shell_complete=_stacks, help=help_text)


def stack_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """``-s`` and ``-C``; the verb's first argument is the `Stack` that they, or those before the verb, name."""

    @_stack_option("The stack; TIDEPOOL_STACK, the selected or the only one.")
    @_folder_option
    @functools.wraps(verb)
    def with_stack(*args: Any, stack: str | None, folder: str | None, **more: Any) -> Any:
        return verb(chosen(click.get_current_context()).find(stack, folder), *args, **more)

    return with_stack


def perhaps_stack_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a verb that is of use without one: its arguments are the `Context`, and the `Stack` or why there is none.

    One that is named has to be there.
    """
    from tidepool.cli.errors import USAGE, Failure

    @_stack_option("The stack, where it is about one.")
    @_folder_option
    @functools.wraps(verb)
    def with_stack(*args: Any, stack: str | None, folder: str | None, **more: Any) -> Any:
        from tidepool.engine.errors import EngineError

        choice = chosen(click.get_current_context())
        found: Stack | Failure
        try:
            found = choice.find(stack, folder)
        except (Failure, EngineError) as error:
            if stack or folder or choice.stack or choice.folder:
                raise
            found = error if isinstance(error, Failure) else Failure(str(error), code=USAGE)
        return verb(choice.context, found, *args, **more)

    return with_stack


def chosen(context: click.Context) -> Choice:
    """Return the stack and folder that were named before the verb."""
    said = context.find_object(Choice)
    return said or Choice(context.find_object(Context) or Context.of_process())


def _pool_machines(cluster: Any) -> list[str]:
    from tidepool.cluster.hostlist import expand

    return [
        name for roles in cluster.pools.values() for text in roles.values() for name in expand(text or "")
    ]


def _machines(cluster: Any) -> list[str]:
    from tidepool.cli.cluster import CONTROLLER

    return [CONTROLLER, *sorted({*cluster.machines, *_nodes(cluster)})]


def _nodes(cluster: Any) -> list[str]:
    from tidepool.cluster.hostlist import expand

    return [*(name for text in cluster.fleets.values() for name in expand(text)), *_pool_machines(cluster)]


def _stacks(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    from tidepool.cli.stack import stacks_with_files
    from tidepool.engine.errors import EngineError
    from tidepool.engine.project import find_project

    try:
        found = stacks_with_files(find_project(chosen(context).context.cwd))
    except EngineError:
        return []
    return [name for name in found if name.startswith(incomplete)]


_Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _completing(names: Callable[[Any], list[str]]) -> _Complete:
    """Return what gives the shell those ``names`` of a cluster that a word may become."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        from tidepool.cli.cluster import require_cluster

        try:
            stack = chosen(context).find(context.params.get("stack"), context.params.get("folder"))
            cluster = require_cluster(stack)
            return [name for name in names(cluster) if name.startswith(incomplete)]
        except Exception:  # noqa: BLE001  (a shell that completes has no place for errors: it gets no names)
            return []

    return complete


machine_names = _completing(_machines)
node_names = _completing(_nodes)
fleet_names = _completing(lambda cluster: [*cluster.fleets])
pool_names = _completing(lambda cluster: [*cluster.pools])
pool_machine_names = _completing(_pool_machines)


_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|min|h|d)?")
_UNITS_S: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


class Span(click.ParamType[float]):
    """A time such as 90, 90s, 10m, 2h or 1d; in seconds."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        found = _SPAN.fullmatch(str(value).strip())
        if found is None or float(found[1]) == 0:
            self.fail(f"{value!r} is no time; write 90s, 10m, 2h or 1d", param, ctx)
        return float(found[1]) * _UNITS_S[found[2] or "s"]
