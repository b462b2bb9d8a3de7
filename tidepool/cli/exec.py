"""`exec`, `kubectl` and `ssh`: commands on machines with the person's own streams; on several, with a name before each line.

Keys and host keys of `ssh` are handed over in memory: nothing is written, and nothing is left.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import click

from tidepool.cli import show
from tidepool.cli.cluster import find_machine, find_machines
from tidepool.cli.context import Connection
from tidepool.cli.engine import handled_signals, ignore
from tidepool.cli.errors import EXEC_FAILED, SSH_FAILED, USAGE, Failure, failure_of
from tidepool.cli.options import machine_names, stack_options
from tidepool.cli.reach import (
    SshAddress,
    by_kind,
    command_on,
    program,
    ssh_address,
    ssh_files,
    ssh_options,
)
from tidepool.cli.stack import Stack
from tidepool.cluster.users import RESEARCHER

#: How many machines a command runs on at once.
_AT_ONCE: Final = 32


@click.command("exec", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False})
@click.option("-u", "--user", metavar="USER", help="As this user of the machine's; else as root.")
@click.argument("machines", metavar="NODE", shell_complete=machine_names)
@click.argument("command", metavar="[--] COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@stack_options
def exec_verb(stack: Stack, user: str | None, machines: str, command: tuple[str, ...]) -> int:
    """Run a command on a machine, or on several.

    NODE is a node, a login machine, `controller`, or a hostlist such as cpu-[1-4]. On one machine the command has
    this terminal, its standard input and its signals; the exit code is the command's. On several they run side by
    side without standard input, each line with its machine's name before it; the exit code is the largest.
    """
    from tidepool.cluster.hostlist import expand

    if command[0] == "--":
        command = command[1:]
    with _failing_with(EXEC_FAILED):
        stack.require_root()
        if not command:
            raise Failure("there is no command", code=USAGE)
        names = list(expand(machines))
        found = dict(zip(names, find_machines(stack, names), strict=True))
        if not found:
            raise Failure("there is no machine in the hostlist", code=USAGE)
        command = (*as_user(user), *command)
        if len(found) > 1:
            return _side_by_side(stack, found, command)
        argv = command_on(stack, found[names[0]], command, terminal=os.isatty(0))
    sys.stdout.flush()
    os.execve(argv[0], argv, environment(stack.context.env))  # noqa: S606 (no shell)


def as_user(user: str | None) -> tuple[str, ...]:
    """Return the words that, put before a command of a machine, run it as ``user``."""
    if not user:
        return ()
    # Without PAM and a login shell, whose noise would go into the output; arguments go through as they are.
    begin = 'export LANG=C.UTF-8; cd "$HOME"; exec "$@"'
    return ("chroot", f"--userspec={user}", "/", "setpriv", "--reset-env", "sh", "-c", begin, "sh")


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command on a machine: of the caller's, what describes the terminal."""
    from tidepool.infrastructures.local.kernel.spec import DEFAULT_PATH

    kept = {name: env[name] for name in ("TERM", "COLORTERM", "NO_COLOR") if name in env}
    return {"PATH": DEFAULT_PATH, "HOME": "/root", "LANG": "C.UTF-8", **kept}


def _side_by_side(stack: Stack, machines: Mapping[str, Connection], command: Sequence[str]) -> int:
    """The largest of the exit codes. One that does not run does not hold back the others."""
    from tidepool.infrastructures.local.kernel import NoSuchMachine

    env = environment(stack.context.env)
    lock = threading.Lock()
    width = max(map(len, machines))

    def pass_on(name: str, pipe: Any, *, aside: bool) -> None:
        for line in pipe:
            with lock:
                click.echo(f"{name:<{width}}: {line.rstrip(chr(10))}", err=aside)

    def run(name: str, machine: Connection) -> int:
        try:
            argv = command_on(stack, machine, command)
        except NoSuchMachine as error:
            with lock:
                show.tell(f"{name:<{width}}: {error}")
            return EXEC_FAILED
        with subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            errors = threading.Thread(target=pass_on, args=(name, process.stderr), kwargs={"aside": True})
            errors.start()
            pass_on(name, process.stdout, aside=False)
            errors.join()
            code = process.wait()
        if code:
            with lock:
                show.tell(f"{name:<{width}}: exit code {code}")
        return code

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return max(pool.map(run, machines, machines.values()))


@contextmanager
def _failing_with(code: int) -> Iterator[None]:
    """Have each failure end with ``code``, which no command's own is taken for."""
    try:
        yield
    except BrokenPipeError:
        raise
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        raise Failure(failure.what, remedy=failure.remedy, code=code) from error


@click.command(
    "kubectl", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False}
)
@click.argument("words", metavar="[--] WORDS...", nargs=-1, required=True, type=click.UNPROCESSED)
@stack_options
def kubectl_verb(stack: Stack, words: tuple[str, ...]) -> int:
    r"""Run kubectl on the cluster's Kubernetes, with all rights where that is the cluster's own.

    It is this machine's kubectl, with this terminal, its standard input and its signals; the exit code is its own.

    \b
    tidepool kubectl -- get pods --all-namespaces --output=wide
    """
    with _failing_with(EXEC_FAILED):
        stack.require_root()
        argv, env = _command(stack, words[1:] if words[0] == "--" else words)
    sys.stdout.flush()
    os.execve(argv[0], argv, env)  # noqa: S606 (no shell)


def _command(stack: Stack, words: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """Return the command line and its environment. The key is in a file for root alone, and in neither of them."""
    from tidepool.cluster.names import KUBERNETES_ACCESS, KUBERNETES_ADMIN_ACCESS
    from tidepool.infrastructures.kubernetes_access import access_path, load_access
    from tidepool.infrastructures.local.kernel import network_prefix

    name, path = KUBERNETES_ADMIN_ACCESS, access_path(stack.data, stack.name, KUBERNETES_ADMIN_ACCESS)
    if not path.exists():
        name, path = KUBERNETES_ACCESS, access_path(stack.data, stack.name, KUBERNETES_ACCESS)
    access = load_access(stack.data, stack.name, name)
    search = stack.context.env.get("PATH")
    kubectl = shutil.which("kubectl", path=search)
    if kubectl is None:
        raise Failure(
            "kubectl is not on PATH of this machine",
            remedy=f"install it, from the packages of your system or of Kubernetes; or use KUBECONFIG={path}",
        )
    prefix: tuple[str, ...] = ()
    match access.machine:
        case {"kind": "local", "stack": str(its_stack), "machine": str(machine)}:
            prefix = network_prefix(stack.data, its_stack, machine)
    argv = [*prefix, kubectl, *words]
    found = shutil.which(argv[0], path=search)
    if found is None:
        raise Failure(f"{argv[0]} is not on PATH", remedy="install util-linux")
    # Another server's settings of the person's would go before those in the file.
    env = {key: value for key, value in stack.context.env.items() if key != "KUBECONFIG"}
    return [found, *argv[1:]], {**env, "KUBECONFIG": str(path)}


_HOST_KEY: Final = "/etc/ssh/ssh_host_ed25519_key.pub"
_HOST_KEY_S: Final = 10.0


@click.command("ssh", context_settings={"allow_interspersed_args": False})
@click.option(
    "-u",
    "--user",
    "-l",
    metavar="USER",
    help="As whom.  [default: the first of the spec's users; on an existing host who the spec says logs in]",
)
@click.option(
    "-i",
    "--identity",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="The user's own private key: without it root's is used, and then `su`.",
)
@click.option("-t", "terminal", is_flag=True, help="Give the command a terminal.")
@click.argument("machine", metavar="NODE", shell_complete=machine_names)
@click.argument("command", metavar="[--] [COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@stack_options
def ssh_verb(
    stack: Stack,
    user: str | None,
    identity: str | None,
    terminal: bool,
    machine: str,
    command: tuple[str, ...],
) -> int:
    """Log in to a machine, or run a command there as that user.

    NODE is a login machine, a node, or `controller`. The stack's own key opens root, who becomes that user; with the user's
    own key it is as if they came by themselves: to a node only where a job of theirs runs. The machine must have the
    host key that it made when it first booted. To an existing host, the key and the file of host keys are those by
    which the spec says that it is reached. The exit code is the command's; 255 where ssh itself failed.
    """
    if command[:1] == ("--",):
        command = command[1:]
    with _failing_with(SSH_FAILED):
        stack.require_root()
        ssh, connection = program("ssh"), find_machine(stack, machine)
        target = by_kind(_TARGETS, connection, "there is no ssh")(stack, connection)
        login, words = target.user, command
        if login != "root" or identity is not None:
            login = user or (login if login != "root" else _first_user(stack))
        elif (wanted := user or _first_user(stack)) != "root":
            terminal = terminal or (not command and stack.context.person)
            words = (
                "su",
                "--login",
                wanted,
                *(("--command", shlex.quote(" ".join(command))) if command else ()),
            )
    with target.files as (key, known_hosts):
        options = ssh_options(identity or key, known_hosts, target.place.port, log_level="INFO")
        argv = [
            *(*target.prefix, ssh, *options),
            *(["-t"] if terminal else []),
            *("-l", login, "--", target.place.address, *words),
        ]
        # The terminal's interrupts are ssh's to answer. Not ignored, for a child would inherit that.
        with (
            handled_signals({signal.SIGINT: ignore}),
            subprocess.Popen(argv, env=dict(stack.context.env)) as process,
        ):
            return process.wait()


def _first_user(stack: Stack) -> str:
    """Return who logs in where nobody is named."""
    outputs = stack.outputs() or {}
    for of in (outputs.get("users"), outputs.get("spec")):
        if isinstance(of, dict) and of.get("users"):
            return str(of["users"][0]["name"])
    return RESEARCHER.name


@dataclass(frozen=True, slots=True)
class _Target:
    """An sshd, and whom the key opens there.

    ``files`` are the paths of the key and of host keys, for as long as they are held; ``prefix`` are the words that bring a
    command into the machine's network.
    """

    place: SshAddress
    files: AbstractContextManager[tuple[str, str]]
    user: str = "root"
    prefix: tuple[str, ...] = ()


def _outside(stack: Stack, connection: Connection) -> _Target:
    _, known_hosts = ssh_files(stack, connection)
    return _Target(ssh_address(stack, connection), _with_key(stack, nullcontext(str(known_hosts))))


def _host(stack: Stack, connection: Connection) -> _Target:
    """Log in as who is let in there: a host has no accounts and no keys of the cluster's."""
    key, known_hosts = ssh_files(stack, connection)
    files = nullcontext((str(key), str(known_hosts)))
    return _Target(ssh_address(stack, connection), files, str(connection["user"]))


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
    known = f"{found.address} {key.stdout.strip()}\n"
    return _Target(SshAddress(found.address), _with_key(stack, _in_memory(known)), prefix=network.prefix)


#: By the kinds of connections.
_TARGETS: Final[Mapping[str, Callable[[Stack, Connection], _Target]]] = {
    "local": _here,
    "ssh": _outside,
    "host": _host,
}


@contextmanager
def _with_key(stack: Stack, known_hosts: AbstractContextManager[str]) -> Iterator[tuple[str, str]]:
    """The stack's own key beside ``known_hosts``."""
    with _in_memory(str(stack.secret("sshKey"))) as key, known_hosts as known:
        yield key, known


@contextmanager
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
