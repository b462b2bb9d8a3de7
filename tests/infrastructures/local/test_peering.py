"""Packets between the switches of two stacks that have an agreement, and of those that have none."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.local.outside import ASK, ECHO, PATIENCE_S, asked
from tests.infrastructures.local.stacks import PYTHON, Stack, kill_hard
from tidepool.cluster.boot import Service
from tidepool.cluster.flows import Flow, Peer
from tidepool.infrastructures.local.kernel import (
    NetworkSpec,
    Rules,
    create_network,
    delete_network,
    enter_prefix,
    peering,
    read_network,
    uplink,
    wait_ready,
)
from tidepool.infrastructures.local.kernel.layout import network_paths
from tidepool.infrastructures.local.kernel.lifeline import Lifeline
from tidepool.infrastructures.local.kernel.netns import run_ip
from tidepool.infrastructures.local.kernel.peering import find_peerings, peer_of
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
    assert peer_of(find_peerings(client.data), client.name, "10.88.0.0/16", f"{SERVER}/32") is None
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


@pytest.fixture
def rival(other_stack: Stack) -> Iterator[Stack]:
    """A third stack, with the client's addresses, whose name comes first."""
    third = Stack(other_stack.data, f"a{uuid.uuid4().hex[:8]}", other_stack.image)
    yield third
    third.delete_all()


def test_of_two_with_the_same_addresses_the_one_that_has_the_cable_keeps_it(
    pair: tuple[Stack, Stack], rival: Stack
) -> None:
    server, client = pair
    apply(client, OF_CLIENT)
    apply(server, OF_SERVER)
    create_network(rival.data, NetworkSpec(rival.name, "net", "10.88.0.0/16"))
    apply(rival, OF_CLIENT)
    apply(server, OF_SERVER)
    assert reach(client, SERVER, SERVED) == f"{SERVER} to {CLIENT}: hello"
    assert (cables(client), cables(rival), cables(server)) == (1, 0, 1)
    assert stand(server, OF_SERVER)
    assert stand(client, OF_CLIENT)
    assert stand(rival, OF_CLIENT), "there is nobody for it"
    client.delete_all()
    assert not stand(rival, OF_CLIENT)
    apply(rival, OF_CLIENT)
    assert (cables(rival), cables(server)) == (1, 1)
    assert stand(server, OF_SERVER)


def test_of_two_that_come_at_once_one_has_the_cable_and_all_know_which(
    stack: Stack, other_stack: Stack, rival: Stack
) -> None:
    rules = {stack: OF_SERVER, other_stack: OF_CLIENT, rival: OF_CLIENT}
    for one in rules:
        cidr = "10.77.0.0/16" if one is stack else "10.88.0.0/16"
        create_network(one.data, NetworkSpec(one.name, "net", cidr))
    with ThreadPoolExecutor() as threads:
        list(threads.map(apply, rules, rules.values()))
    assert all(stand(one, rules[one]) for one in rules)
    winner, loser = sorted((other_stack, rival), key=cables, reverse=True)
    assert (cables(stack), cables(winner), cables(loser)) == (1, 1, 0)
    sides = list(find_peerings(stack.data))
    for one in (winner, loser):
        there = peer_of(sides, one.name, "10.88.0.0/16", f"{SERVER}/32")
        assert there is not None
        assert there.stack == stack.name
    chosen = peer_of(sides, stack.name, "10.77.0.0/16", "10.88.0.0/16")
    assert chosen is not None
    assert chosen.stack == winner.name


def test_one_that_dies_while_its_cable_is_laid_is_no_fault_of_the_other(
    stack: Stack, other_stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one, cidr in ((stack, "10.77.0.0/16"), (other_stack, "10.88.0.0/16")):
        create_network(one.data, NetworkSpec(one.name, "net", cidr))
    apply(other_stack, OF_CLIENT)
    found = read_network(other_stack.data, other_stack.name, "net")
    assert found is not None

    def dying(where: Lifeline, lines: Sequence[str]) -> bool:
        kill_hard(found.pid or 0)
        return run_ip(where, lines)

    with monkeypatch.context() as patched:
        patched.setattr(peering, "run_ip", dying)
        apply(stack, OF_SERVER)
    assert stand(stack, OF_SERVER)
    create_network(other_stack.data, NetworkSpec(other_stack.name, "net", "10.88.0.0/16"))
    apply(other_stack, OF_CLIENT)
    assert (cables(stack), cables(other_stack)) == (1, 1)


def test_one_that_takes_its_uplink_away_gets_no_cable_meanwhile(
    stack: Stack, other_stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one, cidr in ((stack, "10.77.0.0/16"), (other_stack, "10.88.0.0/16")):
        create_network(one.data, NetworkSpec(one.name, "net", cidr))
    apply(stack, OF_SERVER)
    apply(other_stack, OF_CLIENT)
    real = uplink._take_away

    def meanwhile(*arguments: Any) -> None:
        apply(stack, OF_SERVER)
        real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(uplink, "_take_away", meanwhile)
        apply(other_stack, Rules())
    assert (cables(stack), cables(other_stack)) == (0, 0)


def test_the_record_of_an_uplink_is_read_once_in_an_operation(
    stack: Stack, other_stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one, cidr in ((stack, "10.77.0.0/16"), (other_stack, "10.88.0.0/16")):
        create_network(one.data, NetworkSpec(one.name, "net", cidr))
    apply(other_stack, OF_CLIENT)
    own = network_paths(stack.data, stack.name, "net").uplink
    read: list[Path] = []
    real = Path.read_text

    def reading(path: Path, *arguments: Any) -> str:
        read.append(path)
        return real(path, *arguments)

    monkeypatch.setattr(Path, "read_text", reading)
    for operation in (apply, stand):
        read.clear()
        operation(stack, OF_SERVER)
        assert read.count(own) == 1, operation


def cables(stack: Stack) -> int:
    """How many cables its switch has to others."""
    found = read_network(stack.data, stack.name, "net")
    assert found is not None
    listed = subprocess.run([*found.prefix, "ip", "-o", "link"], capture_output=True, text=True, check=True)
    return sum(line.split()[1].startswith("peer") for line in listed.stdout.splitlines())
