"""`logs`: a machine's boot log, and what Slurm's daemons on it wrote."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Final

import click

from tidepool.cli import show
from tidepool.cli.cluster import find_machine
from tidepool.cli.errors import Failure
from tidepool.cli.options import json_option, machine_names, stack_options
from tidepool.cli.stack import Stack
from tidepool.cli.world import Connection

#: Where Slurm's daemons and the database's write, in a machine (`tidepool.cluster.slurm_conf`).
_LOGS: Final = ("slurmctld.log", "slurmd.log", "slurmdbd.log")
_FOLDER: Final = "var/log/slurm"


@click.command("logs")
@click.option("-n", "--lines", type=click.IntRange(min=0), default=50, show_default=True, help="Of each log.")
@click.option("-f", "--follow", is_flag=True, help="Go on showing what comes; end it with Ctrl-C.")
@click.argument("machine", metavar="NODE|controller", shell_complete=machine_names)
@json_option
@stack_options
def logs_verb(stack: Stack, lines: int, follow: bool, machine: str, as_json: bool) -> None:
    """Show what a machine and Slurm's daemons on it said.

    First its boot log, with what its services wrote; then the logs of slurmctld, slurmd and slurmdbd, those that
    there are. A machine that is dead still has them.
    """
    if follow and as_json:
        raise click.UsageError("--follow and --json do not go together")
    stack.require_root()
    paths = log_files(stack, find_machine(stack, machine))
    if as_json:
        show.emit(
            [{"log": name, "path": str(path), "lines": last_lines(path, lines)} for name, path in paths]
        )
        return
    if follow:
        # By name, so that a log is followed over its rotation, and over the machine's next boot.
        command = ["/usr/bin/tail", "-n", str(lines), "-F", "--", *(str(path) for _, path in paths)]
        os.execv(command[0], command)  # noqa: S606 (no shell)
    for place, (name, path) in enumerate(paths):
        show.say(("\n" if place else "") + click.style(f"==> {name}", bold=True))
        for line in last_lines(path, lines):
            show.say(line)


def log_files(stack: Stack, connection: Connection) -> list[tuple[str, Path]]:
    """The logs of a machine by name: the boot log, and those of Slurm that are there.

    Raises:
        Failure: it is no machine of this machine.
        NoSuchMachine: it is gone.
    """
    from tidepool.local import NoSuchMachine, read_machine
    from tidepool.local.layout import machine_place

    match connection:
        case {"kind": "local", "stack": str(of), "machine": str(name)}:
            pass
        case _:
            raise Failure(f"logs cannot be read over the connection {dict(connection)}")
    machine = read_machine(stack.data, of, name)
    if machine is None:
        raise NoSuchMachine(f"there is no machine {name} in stack {of}")
    # A machine that runs is looked into as it sees itself; of a dead one, its disk is left.
    root = Path(f"/proc/{machine.pid}/root") if machine.pid else machine_place(stack.data, of, name).upper
    slurms = [(log, root / _FOLDER / log) for log in _LOGS]
    return [("boot.log", machine.boot_log), *((log, path) for log, path in slurms if path.is_file())]


def last_lines(path: Path, number: int) -> list[str]:
    """The last ``number`` lines of a log; none where it is not there."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, maxlen=number)]
    except FileNotFoundError:
        return []
