"""From within a machine's own network, which nothing outside of the stack reaches: a connection, or a command."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.errors import NoSuchMachine
from tidepool.infrastructures.local.kernel.machine import running_machine

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

    try:
        network = os.open(f"/proc/{lifeline.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NoSuchMachine(f"machine {machine} of stack {stack} is not running") from None
    try:
        if not lifeline.is_alive():  # the pid may be another process's by now
            raise NoSuchMachine(f"machine {machine} of stack {stack} is not running")
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
    return ("nsenter", f"--net=/proc/{running_machine(data, stack, machine).pid}/ns/net", "--")


def _enter(network: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(network, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
