"""`scale`: the daemon that makes the cluster breathe."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from tidepool.cli import errors, show
from tidepool.cli.engine import handled_signals
from tidepool.cli.errors import NOT_THERE, USAGE, Failure
from tidepool.cli.options import stack_options
from tidepool.cli.stack import Stack, scaler_folder

if TYPE_CHECKING:
    from tidepool.scaling.daemon.daemon import Daemon, Listen
    from tidepool.scaling.ports import Journal

_NOWHERE: Final = ("none", "off")


@click.command("scale")
@click.option("--once", is_flag=True, help="Look, decide and act once, and end when that is done.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Where /healthz and /metrics are, or `none`.  [default: any free port of 127.0.0.1]",
)
@stack_options
def scale_verb(stack: Stack, once: bool, listen: str | None) -> int:
    """Run the scaler: nodes come and go with the queue, as the spec's policies say, until Ctrl-C.

    It goes on from where the last one was, however that ended. A second one stands by, and takes over when the first is
    gone. `tidepool pause` stops it from acting, `tidepool watch` shows what it does and why.
    """
    stack.require_root()
    from tidepool.scaling.daemon.daemon import NoAddress

    stack.prepare()
    where = None if once else _listen(listen)
    with ExitStack() as stacked:
        daemon, beside = _put_together(stack, stacked, once=once)
        if once:
            return _once(daemon, beside)
        handlers = dict.fromkeys((signal.SIGTERM, signal.SIGINT), lambda _number, _frame: daemon.end())
        with handled_signals(handlers):
            try:
                daemon.run(where, beside)
            except NoAddress as error:
                raise Failure(
                    f"{listen or 'a port of 127.0.0.1'} cannot be listened on: {error}",
                    remedy="name another --listen, or leave it out for any free port",
                    code=USAGE,
                ) from error
    return errors.OK


def _put_together(stack: Stack, stacked: ExitStack, *, once: bool) -> tuple[Daemon, ThreadPoolExecutor]:
    from tidepool.cli.scaler_ports import (
        BootQuestions,
        account_watch,
        machines_of,
        policies_of,
        pool_ports,
        pulumi_stack,
        warm_engine,
    )
    from tidepool.infrastructures.connection import transport
    from tidepool.journals.processes import is_gone, this_process
    from tidepool.scaling.daemon.daemon import Daemon
    from tidepool.scaling.daemon.events import Voice
    from tidepool.scaling.daemon.loop import Loop
    from tidepool.scaling.daemon.operations import Dependencies
    from tidepool.scaling.daemon.wake import Wake
    from tidepool.scaling.decide.decide import decide
    from tidepool.scaling.decide.remember import remember
    from tidepool.scaling.journal import open_journal
    from tidepool.scaling.observe.kubernetes_watch import AtOnce
    from tidepool.scaling.observe.observe import Observer
    from tidepool.scaling.power.spool import Spool

    folder = scaler_folder(stack)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    journal = open_journal(folder, stack.context.env, stack=stack.name)
    stacked.callback(journal.close)
    voice = Voice(folder, show.say, _now)
    stacked.callback(voice.close)
    engine = stacked.enter_context(warm_engine(stack))
    changed = pulumi_stack(stack, engine)
    machines = machines_of(stack, changed)
    beside = ThreadPoolExecutor(1, thread_name_prefix="up")
    looks = ThreadPoolExecutor(1, thread_name_prefix="kubernetes")
    stacked.callback(lambda: looks.shutdown(wait=False, cancel_futures=True))
    # Who turns once has no other turn, in which it would be known what accounts have used by now.
    counts = AtOnce() if once else ThreadPoolExecutor(1, thread_name_prefix="accounts")
    stacked.callback(lambda: counts.shutdown(wait=False, cancel_futures=True))
    wake = Wake()
    boots = BootQuestions(stack.data, wake.set)
    stacked.callback(boots.close)

    loop = Loop(
        Dependencies(
            holder=this_process(),
            journal=journal,
            observer=Observer(
                stack.name,
                changed,
                machines,
                stack.open_slurm,
                policies_of(stack),
                pools=pool_ports(stack, looks, _monotonic_s, wake.set),
                accounts=account_watch(stack, counts, _monotonic_s, wake.set),
            ),
            stack=changed,
            machines=machines,
            decide=decide,
            remember=remember,
            beside=beside,
            now=_now,
            monotonic_s=_monotonic_s,
            say=voice.say,
            open_requests=lambda connection: Spool(transport(connection, stack.data)),
            wake=wake.set,
            prepare=lambda: beside.submit(engine.prepare),
            ask_boot=boots.ask,
            is_gone=is_gone,
        )
    )
    return Daemon(loop, voice, folder, stack.context.env, wake), beside


def _once(daemon: Daemon, beside: ThreadPoolExecutor) -> int:
    turn = daemon.only_once(beside)
    if turn.role == "stands by":
        raise Failure(f"another daemon is at work: {turn.text}", remedy="end it first", code=errors.FAILED)
    if turn.role in ("holds still", "waits"):
        raise Failure(turn.text, code=NOT_THERE)
    return errors.OK


def _listen(text: str | None) -> Listen | None:
    from tidepool.scaling.daemon.daemon import Listen

    if text is None:
        return Listen()
    if text in _NOWHERE:
        return None
    host, _, port = text.rpartition(":")
    if not (host and port.isdecimal() and int(port) < 1 << 16):
        raise click.BadParameter("write HOST:PORT, such as 127.0.0.1:9417, or none", param_hint="--listen")
    return Listen(host.strip("[]"), int(port))


def _monotonic_s() -> float:
    # It goes on while this process is stopped, and while the machine sleeps.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _now() -> datetime:
    return datetime.now(UTC)


@click.command("pause")
@click.option("-r", "--reason", default="", help="Why, for all who look.")
@stack_options
def pause_verb(stack: Stack, reason: str) -> None:
    """Stop the scaler from acting.

    It goes on looking, and `tidepool watch` shows what it would do. An `up` that is under way comes to its end. It holds for daemons that are started later, too.
    """
    from tidepool.scaling.ports import Pause

    with _journal(stack) as journal:
        journal.pause(Pause(stack.context.who, datetime.now(UTC), reason))
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
    with closing(open_journal(scaler_folder(stack), stack.context.env, stack=stack.name)) as journal:
        yield journal


_EPILOG = (
    "On slurmctld's machine, as slurmctld's user. The scaler does the rest, with `scaling.mode: power_save`."
)


def _power_verb(what: str, asks: str) -> click.Command:
    @click.command(
        f"power-{what}",
        epilog=_EPILOG,
        help=f"""{asks}

        HOSTLIST is written down, durably, and that is all: the daemon `tidepool scale` takes it from there.
        """,
    )
    @click.argument("hostlist")
    def verb(hostlist: str) -> int:
        from tidepool.scaling.power.request import run

        return run([what, hostlist])

    return verb


power_up_verb = _power_verb("up", "Ask for nodes, as Slurm's ResumeProgram.")
power_down_verb = _power_verb("down", "Give nodes back, as Slurm's SuspendProgram.")
