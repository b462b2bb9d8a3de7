"""The command line: verbs that are imported when they are asked for, and errors that become lines and codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from tidepool.cli import errors, show
from tidepool.cli.context import Context
from tidepool.cli.options import Choice, json_option, stack_options

if TYPE_CHECKING:
    from tidepool.cli.stack import Stack

#: Each verb, the module below `tidepool.cli` that has it, and what it does.
VERBS: Final = {
    "new": ("new", "Write a project with a small cluster on this machine."),
    "clone": ("clone", "Describe another stack, NAME, as STACK is described."),
    "up": ("up", "Bring the cluster up, or to what the spec says now."),
    "preview": ("up", "Show what `up` would do."),
    "down": ("down", "Take the cluster down, and look that nothing is left."),
    "status": ("status", "Show controllers, fleets, the queue and machines."),
    "watch": (
        "explain.watch",
        "Show how the cluster breathes: queue, fleets, what is under way, cost and the last decisions.",
    ),
    "why": (
        "explain.why",
        "Say why a job or a pod waits, a node is where it is, or a fleet has the nodes that it has.",
    ),
    "convert": ("pool", "Move machines of converged pools between Slurm and Kubernetes, in place."),
    "pool": ("pool", "Show converged pools: their machines, and how long conversions took."),
    "plan": ("explain.plan", "Show what the scaler would do now, for which jobs, and what it would cost."),
    "run": ("runs.run", "Make a cluster for a workload, keep its results, and take it down."),
    "sweep": (
        "runs.sweep",
        "Run a workload on clusters that differ, and compare their time, cost and efficiency.",
    ),
    "lab": ("lab.verbs", "Measure schedulers against each other, on the same machines."),
    "reap": ("runs.reap", "End runs whose drivers are gone."),
    "replay": ("replay", "Run the jobs of a trace in a simulated cluster, and compare policies."),
    "scale": ("scale", "Run the scaler: nodes come and go with the queue."),
    "report": ("report", "Show what accounts, users and fleets used in a month, and what it cost."),
    "pause": ("scale", "Stop the scaler from acting."),
    "continue": ("scale", "Let the scaler act again."),
    "exec": ("exec", "Run a command on a machine, or on several."),
    "ssh": ("exec", "Log in to a machine."),
    "kubectl": ("exec", "Run kubectl on the cluster's Kubernetes."),
    "logs": ("logs", "Show what a machine and Slurm's daemons on it said."),
    "drain": ("drain", "Let no new jobs start on nodes."),
    "resume": ("drain", "Put nodes back into service."),
    "quota": ("files", "Show what people use of /home, of how much."),
    "scratch": ("files", "Show what goes from scratch and when, and what went."),
    "image": ("image", "Build golden images, show, compare and verify them, and write them in other forms."),
    "doctor": ("doctor", "Say what this machine lacks, and what mends it."),
    "sudoers": ("sudoers", "Write sudo's rules: who administrates, and who looks and drains."),
    "power-up": ("scale", "Ask for nodes, as Slurm's ResumeProgram."),
    "power-down": ("scale", "Give nodes back, as Slurm's SuspendProgram."),
    "env": ("main", "Print the environment in which `pulumi` finds the same stack."),
    "completion": ("main", "Print the shell's script that completes words."),
}
PROGRAM: Final = "tidepool"


class Verbs(click.Group):
    """Imports a verb only when it is asked for, and tells errors to people."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = import_module(f"tidepool.cli.{VERBS[cmd_name][0]}")
        found: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_verb")
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, n=1)
            meant = f"did you mean `{near[0]}`?" if near else f"they are {', '.join(VERBS)}"
            ctx.fail(f"there is no verb '{args[0]}'; {meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, what) for name, (_, what) in VERBS.items()])
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), what) for code, what in errors.EXIT_CODES])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read it has enough, `head` say. Nothing more can be written, not even at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return errors.OK
        return code

    def main(self, args: Sequence[str] | None = None, *more: Any, **named: Any) -> Any:
        named["standalone_mode"] = False
        sys.exit(_exit_code(lambda: super(Verbs, self).main(args, *more, **named)))


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    no_args_is_help=True,
)
@click.option("-s", "--stack", metavar="NAME", help="The stack; also after the verb.")
@click.option("-C", "--cwd", "folder", metavar="DIR", help="The project's folder; also after the verb.")
@click.version_option(package_name="tidepool", prog_name=PROGRAM)
@click.pass_context
def cli(context: click.Context, stack: str | None, folder: str | None) -> None:
    """Slurm clusters that rise and fall with their queue.

    A cluster is a stack of the Pulumi project in this folder; what it should be stands in Pulumi.<stack>.yaml.
    """
    context.obj = Choice(context.find_object(Context) or Context.of_process(), stack, folder)


def _exit_code(run: Any) -> int:
    """The exit code of ``run``; what went wrong is told on standard error."""
    try:
        code = run()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        show.tell("interrupted")
        return errors.INTERRUPTED
    except Exception as error:
        failure = errors.failure_of(error)
        if failure is None:
            show.tell("error: this is a fault of Tidepool; please report it with what follows")
            raise
        show.tell_failure(failure.what, failure.remedy)
        return failure.code
    return code if isinstance(code, int) else errors.OK


@click.command("env")
@json_option
@stack_options
def env_verb(stack: Stack, as_json: bool) -> None:
    r"""Print the environment in which `pulumi` finds the same stack.

    \b
    eval "$(tidepool env)"
    pulumi up
    """
    stack.prepare()
    # The engine's own flags name the stack; a person of `pulumi` has it selected by this.
    settings = {**stack.settings, "PULUMI_STACK": stack.name}
    if as_json:
        show.emit(settings)
        return
    import shlex

    for name, value in sorted(settings.items()):
        show.say(f"export {name}={shlex.quote(value)}")


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_verb(context: click.Context, shell: str) -> None:
    r"""Print the shell's script that completes words.

    \b
    bash   eval "$(tidepool completion bash)"             in ~/.bashrc
    zsh    eval "$(tidepool completion zsh)"              in ~/.zshrc
    fish   tidepool completion fish | source              in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None, f"click completes in {shell}"
    root = context.find_root()
    # The same variable as click looks for by itself when the shell asks.
    show.say(made(root.command, {}, PROGRAM, "_TIDEPOOL_COMPLETE").source())
