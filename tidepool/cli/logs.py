"""`logs`: a machine's boot log, with what its services said, and what Slurm's daemons on it wrote."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import click

from tidepool.cli import show
from tidepool.cli.cluster import find_machine
from tidepool.cli.context import Connection
from tidepool.cli.errors import Failure
from tidepool.cli.options import json_option, machine_names, stack_options
from tidepool.cli.reach import by_kind, command_on
from tidepool.cli.stack import Stack

#: Where Slurm's daemons and the database's write, in a machine (`tidepool.cluster.slurm_conf`).
_LOGS: Final = ("slurmctld.log", "slurmd.log", "slurmdbd.log")
_FOLDER: Final = "var/log/slurm"
#: What machines say of their boot that are reached by SSH.
_BOOT_LOG: Final = "/var/log/cloud-init-output.log"
_ANSWER_S: Final = 30.0


@click.command("logs")
@click.option("-n", "--lines", type=click.IntRange(min=0), default=50, show_default=True, help="Of each log.")
@click.option("-f", "--follow", is_flag=True, help="Go on showing what comes; end it with Ctrl-C.")
@click.argument("machine", metavar="NODE|controller", shell_complete=machine_names)
@json_option
@stack_options
def logs_verb(stack: Stack, lines: int, follow: bool, machine: str, as_json: bool) -> None:
    """Show what a machine and Slurm's daemons on it said.

    First its boot log, with what its services wrote, those of Kubernetes among them; then the logs of slurmctld, slurmd
    and slurmdbd, those that there are. A machine that is dead still has them.
    """
    if follow and as_json:
        raise click.UsageError("--follow and --json do not go together")
    stack.require_root()
    connection = find_machine(stack, machine)
    logs = by_kind(_WAYS, connection, "logs cannot be read")(stack, connection)
    if as_json:
        show.emit([{"log": log.name, "path": log.path, "lines": log.last(lines)} for log in logs])
        return
    if follow:
        # By name, so that a log is followed over its rotation, and over the machine's next boot.
        tail = ["/usr/bin/tail", "-n", str(lines), "-F", "--", *(log.path for log in logs)]
        command = [*logs[0].follow(tail)]
        os.execv(command[0], command)  # noqa: S606 (no shell)
    for place, log in enumerate(logs):
        show.say(("\n" if place else "") + click.style(f"==> {log.name}", bold=True))
        for line in log.last(lines):
            show.say(line)


@dataclass(frozen=True, slots=True)
class _Log:
    """A log: what gives its last lines, and what makes of a `tail` one that runs where it is."""

    name: str
    path: str
    last: Callable[[int], list[str]]
    follow: Callable[[Sequence[str]], Sequence[str]]


def _here(stack: Stack, connection: Connection) -> list[_Log]:
    """The boot log, and those of Slurm that are there.

    Raises:
        NoSuchMachine: it is gone.
    """
    from tidepool.infrastructures.local.kernel import NoSuchMachine, read_machine
    from tidepool.infrastructures.local.kernel.layout import machine_paths

    of, name = str(connection["stack"]), str(connection["machine"])
    machine = read_machine(stack.data, of, name)
    if machine is None:
        raise NoSuchMachine(f"there is no machine {name} in stack {of}")
    # A machine that runs is looked into as it sees itself; of a dead one, its disk is left.
    root = Path(f"/proc/{machine.pid}/root") if machine.pid else machine_paths(stack.data, of, name).upper
    slurms = {log: path for log in _LOGS if (path := root / _FOLDER / log).is_file()}
    return [
        _Log(log, str(path), partial(last_lines, path), lambda tail: tail)
        for log, path in {"boot.log": machine.boot_log, **slurms}.items()
    ]


def _over_ssh(stack: Stack, connection: Connection) -> list[_Log]:
    from tidepool.infrastructures.connection import transport

    there = transport(connection, stack.data)

    def run(*argv: str) -> list[str]:
        ended = there.run(argv, timeout_s=_ANSWER_S)
        if ended.exit_code:
            raise Failure(f"logs cannot be read {there.where}: {ended.stderr.strip()}")
        return ended.stdout.splitlines()

    wanted = {_BOOT_LOG: "boot.log", **{f"/{_FOLDER}/{log}": log for log in _LOGS}}
    found = run("sh", "-c", 'for each; do test ! -f "$each" || echo "$each"; done', "sh", *wanted)
    if not found:
        raise Failure(
            f"there are no logs {there.where}", remedy="its console may say more, where its host is"
        )
    return [
        _Log(
            wanted[path],
            path,
            lambda lines, path=path: run("tail", "-n", str(lines), "--", path),  # type: ignore[misc]
            partial(command_on, stack, connection),
        )
        for path in found
    ]


#: By the kinds of connections.
_WAYS: Final[Mapping[str, Callable[[Stack, Connection], list[_Log]]]] = {
    "local": _here,
    "ssh": _over_ssh,
    "host": _over_ssh,
}


def last_lines(path: Path, number: int) -> list[str]:
    """The last ``number`` lines of a log; none where it is not there."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, maxlen=number)]
    except FileNotFoundError:
        return []
