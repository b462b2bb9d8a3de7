"""Packets between the switches of two stacks that have an agreement, and of those that have none."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.infrastructures.local.outside import ASK, ECHO, PATIENCE_S, asked
from tests.infrastructures.local.stacks import PYTHON, Stack
from tidepool.cluster.boot import Service
from tidepool.cluster.flows import Flow, Peer
from tidepool.infrastructures.local.kernel import (
    NetworkSpec,
    Rules,
    create_network,
    delete_network,
    enter_prefix,
    read_network,
    wait_ready,
)
from tidepool.infrastructures.local.kernel.layout import network_paths
from tidepool.infrastructures.local.kernel.peering import find_peers
from tidepool.infrastructures.local.kernel.uplink import is_as_known, set_uplink

SERVED, CALLED = 6819, 6817
SERVER, CLIENT = "10.77.0.11", "10.88.0.11"
ASKS = Flow((f"{CLIENT}/32",), (f"{SERVER}/32",), "tcp", (str(SERVED),))
CALLS_BACK = Flow((f"{SERVER}/32",), (f"{CLIENT}/32",), "tcp", (str(CALLED),))
OF_SERVER = Rules(peers=(Peer("10.88.0.0/16", (ASKS,), (CALLS_BACK,)),))
OF_CLIENT = Rules(peers=(Peer(f"{SERVER}/32", (CALLS_BACK,), (ASKS,)),))


@pytest.fixture
def pair(stack: Stack, other_stack: Stack) -> Iterator[tuple[Stack, Stack]]:
    """A server and a client at the first address of each, with a neighbour at the second; no rules yet."""
    for one, network, places in ((stack, "10.77", (1, 2)), (other_stack, "10.88", (1, 2))):
        create_network(one.data, NetworkSpec(one.name, "net", f"{network}.0.0/16"))
        for number in places:
            echoes = [
                Service(f"echo-{port}", (PYTHON, "-c", ECHO, str(port), f"{network}.0.{10 + number}"), ready=f"tcp:{port}")
                for port in (SERVED, CALLED)
            ]  # fmt: skip
            one.create(replace(one.spec(number, *echoes), address=f"{network}.0.{10 + number}"))
    for one in (stack, other_stack):
        for number in (1, 2):
            wait_ready(one.data, one.name, f"cpu-{number}", 60)
    yield stack, other_stack
    assert not (stack.data / "peers.lock").exists()


def apply(stack: Stack, rules: Rules) -> None:
    found = read_network(stack.data, stack.name, "net")
    assert found is not None
    switch = NetworkSpec(stack.name, "net", found.cidr).switch_address
    set_uplink(network_paths(stack.data, stack.name, "net"), switch, rules)


def reach(stack: Stack, address: str, port: int, on: int = 1) -> str:
    prefix = enter_prefix(stack.data, stack.name, f"cpu-{on}")
    return asked([*prefix, PYTHON, "-c", ASK, address, str(port), PATIENCE_S, ""])


def stand(stack: Stack, rules: Rules) -> bool:
    return is_as_known(network_paths(stack.data, stack.name, "net"), rules)


def test_what_both_agree_on_passes_both_ways_and_nothing_else(pair: tuple[Stack, Stack]) -> None:
    server, client = pair
    apply(client, OF_CLIENT)
    assert reach(client, SERVER, SERVED).startswith("refused"), "the other does not know of it"
    assert not list(find_peers(client.data, "10.88.0.0/16", f"{SERVER}/32"))
    apply(server, OF_SERVER)
    # With their own addresses: who is asked knows whom to call back.
    assert reach(client, SERVER, SERVED) == f"{SERVER} to {CLIENT}: hello"
    assert reach(server, CLIENT, CALLED) == f"{CLIENT} to {SERVER}: hello"
    others = (
        (SERVER, CALLED, 1),
        ("10.77.0.12", SERVED, 1),
        (SERVER, SERVED, 2),
        ("10.77.255.254", SERVED, 1),
    )
    for address, port, on in others:
        assert reach(client, address, port, on).startswith("refused"), (address, port, on)
    for address, port, on in ((CLIENT, SERVED, 1), (CLIENT, CALLED, 2), ("10.88.0.12", CALLED, 1)):
        assert reach(server, address, port, on).startswith("refused"), (address, port, on)
    assert stand(server, OF_SERVER)
    assert stand(client, OF_CLIENT)
    # Neither opens more than the other lets in.
    wide = replace(ASKS, ports=(), to=("10.77.0.0/16",))
    apply(client, Rules(peers=(Peer(f"{SERVER}/32", (CALLS_BACK,), (ASKS, wide)),)))
    assert "timed out" in reach(client, SERVER, CALLED)
    apply(server, Rules())
    assert reach(client, SERVER, SERVED).startswith("refused")


def test_a_cable_goes_with_a_switch_and_comes_back_with_it(pair: tuple[Stack, Stack]) -> None:
    server, client = pair
    apply(server, OF_SERVER)
    apply(client, OF_CLIENT)
    for one in (server, client):
        found = read_network(one.data, one.name, "net")
        assert found is not None
        device = next(
            word
            for word in subprocess.run(
                [*found.prefix, "ip", "-o", "link"], capture_output=True, text=True, check=True
            )
            .stdout.replace("@", " ")
            .split()
            if word.startswith("peer")
        )
        subprocess.run([*found.prefix, "ip", "link", "delete", device], check=True)
        assert not stand(server, OF_SERVER)
        apply(server, OF_SERVER)
        assert stand(client, OF_CLIENT)
        assert reach(client, SERVER, SERVED) == f"{SERVER} to {CLIENT}: hello"
    client.delete_all()
    assert stand(server, OF_SERVER), "the other is gone, which is no change of this one"
    create_network(client.data, NetworkSpec(client.name, "net", "10.88.0.0/16"))
    apply(client, OF_CLIENT)
    assert stand(server, OF_SERVER)
    delete_network(client.data, client.name, "net")
