"""Ways into a machine: commands inside of it, and from within its own network, which nothing outside of the stack reaches."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.birth import init_program
from tidepool.infrastructures.local.kernel.cgroup_versions import choose
from tidepool.infrastructures.local.kernel.errors import NoSuchMachine, TimedOut
from tidepool.infrastructures.local.kernel.layout import machine_paths
from tidepool.infrastructures.local.kernel.lifeline import network_namespace
from tidepool.infrastructures.local.kernel.machine import running_machine
from tidepool.infrastructures.local.kernel.spec import DEFAULT_PATH

_END_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Ended:
    """Result of a command. ``code`` is its exit code; 128 and the signal's number where one killed it."""

    code: int
    stdout: str
    stderr: str


def enter_prefix(data: Path, stack: str, name: str) -> tuple[str, ...]:
    """Put before a command, it runs in the machine: its namespaces, limits and capabilities; as root.

    The environment and the streams are the caller's. It holds for the machine's present boot; later it refuses
    with exit code 125, even where the pid was given to another process.

    Raises:
        NoSuchMachine: it is not running.
    """
    lifeline = running_machine(data, stack, name)
    entrances = choose().entrances(machine_paths(data, stack, name).inner_cgroup)
    return (str(init_program(data)), "enter", str(lifeline.pid), str(lifeline.start_ticks), *entrances, "--")


def execute(
    data: Path,
    stack: str,
    name: str,
    argv: Sequence[str],
    *,
    timeout_s: float,
    stdin: str = "",
) -> Ended:
    """Run a command in the machine and wait for its end.

    No shell is between. After ``timeout_s`` the command, and what it started in its process group, is killed.
    Its environment is ``PATH``, ``HOME`` and ``LANG``; nothing of the caller's is passed on.

    Raises:
        NoSuchMachine: it is not running.
        TimedOut: the command did not end in time.
    """
    process = subprocess.Popen(
        [*enter_prefix(data, stack, name), *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={"PATH": DEFAULT_PATH, "HOME": "/root", "LANG": "C.UTF-8"},
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(stdin, timeout_s)
    except BaseException as error:
        _let_go(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise TimedOut(f"{argv[0]} did not end within {timeout_s:g} s on machine {name}") from None
        raise
    return Ended(process.returncode, stdout, stderr)


def _let_go(process: subprocess.Popen[str]) -> None:
    """Kill it, and wait for its end; but not here where that takes long: in a machine that is frozen nothing ends."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, name="a command ends", daemon=True).start()


_CLONE_NEWNET: Final = 0x40000000


def dial(data: Path, stack: str, machine: str, host: str, port: int, timeout_s: float) -> socket.socket:
    """Connect from the machine ``machine`` to a host and a port; the socket stays in that network.

    Raises:
        NoSuchMachine: it is not running.
        OSError: there is no connection within ``timeout_s``.
    """
    lifeline = running_machine(data, stack, machine)
    opened: list[socket.socket | BaseException] = []

    def connect(network: int) -> None:
        try:
            _enter(network)
            opened.append(socket.create_connection((host, port), timeout_s))
        except BaseException as error:  # noqa: BLE001 - raised to who asked
            opened.append(error)

    network = lifeline.open_network_namespace()
    if network is None:
        raise NoSuchMachine(f"machine {machine} of stack {stack} is not running")
    try:
        # A namespace is a thread's: one of its own enters it, and ends.
        thread = threading.Thread(target=connect, args=(network,), name=f"dial {machine}", daemon=True)
        thread.start()
        thread.join()
    finally:
        os.close(network)
    (result,) = opened
    if isinstance(result, BaseException):
        raise result
    return result


def network_prefix(data: Path, stack: str, machine: str) -> tuple[str, ...]:
    """Put before a command of the host, it runs in the network of the machine ``machine``, and else where it was.

    Raises:
        NoSuchMachine: it is not running.
    """
    return ("nsenter", f"--net={network_namespace(running_machine(data, stack, machine).pid)}", "--")


def _enter(network: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(network, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
