"""Connections and commands in a machine's own network, from outside of it."""

from __future__ import annotations

import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.infrastructures.local.stacks import Stack
from tests.machine_faults import pull_plug
from tidepool.infrastructures.local.kernel import NoSuchMachine, dial, network_prefix, wait_ready


def _namespace() -> str:
    return str(Path("/proc/thread-self/ns/net").readlink())


@pytest.fixture
def answering(stack: Stack) -> Stack:
    """One machine, which answers on its own address and on no other."""
    stack.network()
    stack.create(stack.answering())
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    return stack


def _said(stack: Stack, host: str = "127.0.0.1", port: int = 7000, timeout_s: float = 5) -> str:
    with dial(stack.data, stack.name, "cpu-1", host, port, timeout_s) as connected:
        return connected.recv(100).decode()


def test_a_socket_is_in_the_network_of_the_machine_and_its_caller_is_not(answering: Stack) -> None:
    before = _namespace()
    assert _said(answering) == _said(answering, "10.77.0.11") == f"cpu-1 of {answering.name}"
    assert _namespace() == before
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", 7000), 1)


def test_many_threads_dial_at_once(answering: Stack) -> None:
    threads = threading.active_count()
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: _said(answering), range(40))) == {f"cpu-1 of {answering.name}"}
    assert threading.active_count() <= threads


def test_what_does_not_answer_is_an_error_within_the_time(answering: Stack) -> None:
    with pytest.raises(ConnectionRefusedError):
        _said(answering, port=7001)
    with pytest.raises(OSError, match=r"timed out|unreachable|No route"):
        _said(answering, host="10.77.99.99", timeout_s=0.3)


def test_a_machine_that_does_not_run_is_told_apart(answering: Stack) -> None:
    pull_plug(answering.data, answering.name, "cpu-1")
    with pytest.raises(NoSuchMachine, match=r"cpu-1 .*is not running"):
        _said(answering)
    with pytest.raises(NoSuchMachine):
        network_prefix(answering.data, answering.name, "cpu-1")


def test_a_command_of_the_host_runs_in_that_network(answering: Stack) -> None:
    prefix = network_prefix(answering.data, answering.name, "cpu-1")
    told = subprocess.run(
        [*prefix, "ip", "-brief", "address"], capture_output=True, text=True, timeout=10, check=True
    )
    assert "10.77.0.11/16" in told.stdout
