"""`ssh`: the real ssh, with the stack's key, to a machine whose host key is known beforehand.

Keys and host keys are handed over in memory: nothing is written, and nothing is left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import click

from tidepool.cli.cluster import find_machine
from tidepool.cli.context import Connection
from tidepool.cli.errors import SSH_FAILED, Failure, failure_of
from tidepool.cli.options import machine_names, stack_options
from tidepool.cli.reach import ssh_address, ssh_options, ssh_program
from tidepool.cli.stack import Stack

#: Who people are on login machines (the role `users`).
RESEARCHER: Final = "researcher"
_HOST_KEY: Final = "/etc/ssh/ssh_host_ed25519_key.pub"
_HOST_KEY_S: Final = 10.0


@click.command("ssh", context_settings={"allow_interspersed_args": False})
@click.option("-l", "--login", "user", metavar="USER", default=RESEARCHER, show_default=True, help="As whom.")
@click.option("-t", "terminal", is_flag=True, help="Give the command a terminal.")
@click.argument("machine", metavar="NODE", shell_complete=machine_names)
@click.argument("command", metavar="[--] [COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@stack_options
def ssh_verb(stack: Stack, user: str, terminal: bool, machine: str, command: tuple[str, ...]) -> int:
    """Log in to a machine, or run a command there as that user.

    NODE is a login machine, a node, or `controller`. The stack's own key is used, and the machine must have the
    host key that it made when it first booted. The exit code is the command's; 255 where ssh itself failed.
    """
    if command[:1] == ("--",):
        command = command[1:]
    try:
        stack.require_root()
        target = _target(stack, machine)
        key = str(stack.secret("sshKey"))
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        raise Failure(failure.what, remedy=failure.remedy, code=SSH_FAILED) from error
    with _in_memory(key) as key_path, _in_memory(f"{target.known_as} {target.host_key}\n") as known_path:
        argv = [
            *(*target.prefix, "ssh", *ssh_options(key_path, known_path, target.port)),
            *(["-t"] if terminal else []),
            *("-l", user, "--", target.address, *command),
        ]
        # The terminal's interrupts are ssh's to answer. Not ignored, for a child would inherit that.
        kept = signal.signal(signal.SIGINT, lambda _number, _frame: None)
        try:
            with subprocess.Popen(argv, env=dict(stack.context.env)) as process:
                return process.wait()
        finally:
            signal.signal(signal.SIGINT, kept)


@dataclass(frozen=True, slots=True)
class _Target:
    """The target of ssh. ``prefix`` brings a command into the machine's network; ``host_key`` is one line."""

    prefix: tuple[str, ...]
    address: str
    host_key: str
    port: int = 22

    @property
    def known_as(self) -> str:
        """As ssh writes hosts with another port than its own."""
        return self.address if self.port == 22 else f"[{self.address}]:{self.port}"


def _target(stack: Stack, name: str) -> _Target:
    connection = find_machine(stack, name)
    ssh_program()
    kind = str(connection.get("kind"))
    if kind not in _TARGETS:
        raise Failure(
            f"there is no ssh over the connection {dict(connection)}; known are {', '.join(_TARGETS)}"
        )
    return _TARGETS[kind](stack, connection)


def _outside(stack: Stack, connection: Connection) -> _Target:
    place = ssh_address(stack, connection)
    return _Target((), place.address, place.host_key, place.port)


def _here(stack: Stack, connection: Connection) -> _Target:
    from tidepool.infrastructures.local import kernel

    of, machine = str(connection["stack"]), str(connection["machine"])
    found = kernel.read_machine(stack.data, of, machine)
    if found is None or found.pid is None:
        raise kernel.NoSuchMachine(f"machine {machine} of stack {of} is not running")
    network = kernel.read_network(stack.data, of, found.network)
    if network is None:
        raise kernel.NoSuchNetwork(f"network {found.network} of stack {of} is not there")
    key = kernel.execute(stack.data, of, machine, ["cat", _HOST_KEY], timeout_s=_HOST_KEY_S)
    if key.code:
        raise Failure(
            f"machine {machine} has no host key yet, or no sshd: {key.stderr.strip()}",
            remedy=f"`tidepool logs {machine}` shows its boot; `tidepool exec {machine} -- bash` works without ssh",
        )
    return _Target(network.prefix, found.address, key.stdout.strip())


#: By the kinds of connections.
_TARGETS: Final[Mapping[str, Callable[[Stack, Connection], _Target]]] = {"local": _here, "ssh": _outside}


@contextlib.contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """A file of memory alone that only root can read; its path, for as long as this process holds it."""
    descriptor = os.memfd_create("tidepool", os.MFD_CLOEXEC)
    try:
        # ssh refuses a key that others may read.
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, text.encode())
        # By this process's id: ssh closes all descriptors that it was given.
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)
