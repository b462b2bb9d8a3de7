"""Nodes of Ironic read from what its API says, and matched with what machines need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.ironic.inventory import (
    ERROR,
    Claim,
    Host,
    Need,
    Port,
    host_of,
    hosts_of,
    mac_of,
    plan,
    taken,
    unfit,
)

KEY = MachineKey("one", "cpu-1")
OURS = Claim("one", "cpu-1", "6f1c1f7e-3f0e-4a53-9f5d-4b0a2f3f3a11")
PORT = Port("52:54:00:00:00:01")
names = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
claims = st.builds(Claim, names, names, st.uuids().map(str))


@st.composite
def a_claimed(draw: st.DrawFn) -> Host:
    claim = draw(claims)
    return replace(draw(hosts), instance=claim.instance, marked=str(claim))


hosts = st.builds(
    Host,
    uuid=st.uuids().map(str),
    name=names,
    state=st.sampled_from(["available", "active", "deploying", "clean failed", "enroll", ERROR]),
    instance=st.one_of(st.just(""), st.uuids().map(str)),
    marked=st.one_of(st.just(""), claims.map(str)),
    is_in_maintenance=st.booleans(),
    is_retired=st.booleans(),
    cpus=st.one_of(st.none(), st.integers(1, 256)),
    memory_mib=st.one_of(st.none(), st.integers(1, 2**20)),
    boot_interface=st.sampled_from(["redfish-virtual-media", "ipxe", ""]),
    ports=st.lists(st.just(PORT), max_size=2).map(tuple),
)
needs = st.builds(Need, st.integers(1, 256), st.integers(1, 2**20))


def a_host(**told: Any) -> Host:
    known = {"cpus": 16, "memory_mib": 65536, "boot_interface": "redfish-virtual-media", "ports": (PORT,)}
    return Host(**{"uuid": "1", "name": "alpha", **known, **told})


@given(claims)
def test_a_claim_is_what_is_written_of_it(claim: Claim) -> None:
    assert Claim.read(str(claim)) == claim


@pytest.mark.parametrize("text", ["", "one/cpu-1", "one/cpu-1/xyz", "rack 7"])
def test_other_texts_are_no_claims(text: str) -> None:
    assert Claim.read(text) is None


@given(st.lists(st.one_of(hosts, a_claimed()), max_size=6, unique_by=lambda host: host.name), needs)
def test_no_host_is_planned_that_is_not_free_and_fit_and_each_other_says_why(
    there: list[Host], need: Need
) -> None:
    found = plan(KEY, need, there)
    for host in found.candidates:
        assert not taken(host)
        assert not unfit(host, need)
    for host in found.held:
        assert host.claim is not None
        assert (host.claim.stack, host.claim.node) == ("one", "cpu-1")
    planned = {host.called for host in (*found.held, *found.candidates)}
    assert planned | {*found.reasons} == {host.called for host in there}
    assert not planned & {*found.reasons}


def test_the_smallest_that_fits_comes_first_and_one_of_unknown_size_last() -> None:
    large, small, unknown = (a_host(name=str(mib), memory_mib=mib) for mib in (65536, 4096, None))
    found = plan(KEY, Need(1, 1024), (unknown, large, small))
    assert found.candidates == (small, large, unknown)
    assert plan(KEY, Need(1, 1024), (large, small), ("65536",)).candidates == (large,)


def test_a_claim_holds_as_long_as_its_instance_and_where_ironic_could_not_tear_it_down() -> None:
    held = a_host(state="active", instance=OURS.instance, marked=str(OURS))
    assert held.claim == OURS
    # Ironic takes the instance off also where it could not switch the host off.
    failed = replace(held, state=ERROR, instance="", power="power on")
    assert failed.claim == OURS
    assert replace(failed, power="").claim == OURS
    assert replace(failed, power="power off").claim is None
    assert replace(held, state="available", instance="").claim is None
    assert replace(held, instance="another").claim is None


@pytest.mark.parametrize(
    ("host", "said"),
    [
        (
            a_host(state="active", instance=OURS.instance, marked=str(OURS)),
            "it is the node cpu-1 of the stack one",
        ),
        (a_host(instance=OURS.instance), "which is none of Tidepool's"),
        (
            a_host(is_in_maintenance=True, maintenance_reason="disk"),
            "(disk): baremetal node maintenance unset alpha",
        ),
        (a_host(is_in_maintenance=True, fault="power failure"), "power failure"),
        (a_host(is_retired=True), "it is retired"),
        (a_host(state="enroll"), "baremetal node manage, and then provide"),
        (
            a_host(state="clean failed", last_error="no ramdisk"),
            "it is clean failed (no ramdisk), and not available: see why",
        ),
        (a_host(state="clean wait"), "and not available yet"),
        (a_host(state=ERROR, last_error="no power"), "see why, then baremetal node undeploy"),
    ],
)
def test_why_a_host_is_not_to_be_had_is_told_with_the_remedy(host: Host, said: str) -> None:
    assert said in taken(host)
    assert not taken(a_host())


@pytest.mark.parametrize(
    ("host", "need", "said"),
    [
        (a_host(), Need(99, 1), "it has 16 cpus, and the shape 99"),
        (a_host(), Need(1, 99999), "it has 65536 MiB of memory"),
        (a_host(), Need(1, 1, "gpu"), "its resource class is none, and gpu is asked for"),
        (a_host(traits=("CUSTOM_A",)), Need(1, 1, "", ("CUSTOM_A", "CUSTOM_B")), "it has no trait CUSTOM_B"),
        (
            a_host(boot_interface="ipxe"),
            Need(1, 1),
            "baremetal node set alpha --boot-interface redfish-virtual-media",
        ),
        (a_host(network_interface="neutron"), Need(1, 1), "--network-interface noop (or flat)"),
        (a_host(ports=()), Need(1, 1), "it has no port, by whose address"),
        (a_host(), Need(1, 1, physical_network="ib"), "--physical-network ib"),
        (a_host(ports=(PORT, Port("52:54:00:00:00:02"))), Need(1, 1), "name the physical network of it"),
    ],
)
def test_why_a_host_is_not_fit_is_told_with_the_remedy(host: Host, need: Need, said: str) -> None:
    (found,) = unfit(host, need)
    assert said in found
    assert unfit(a_host(), Need(16, 65536)) == ()


def test_the_port_in_the_clusters_network_is_the_one_that_is_named_else_the_one_with_pxe() -> None:
    ports = (Port("aa", "data", is_pxe_enabled=False), Port("bb", "boot"), Port("cc", "ib"))
    host = a_host(ports=ports)
    assert [mac_of(host, network) for network in ("data", "ib", "", "other")] == ["aa", "cc", "", ""]
    assert mac_of(a_host(ports=ports[:2]), "") == "bb"


def test_hosts_are_read_with_their_ports_and_what_is_not_said_is_empty() -> None:
    nodes: list[dict[str, Any]] = [
        {
            "uuid": "u",
            "name": None,
            "provision_state": "available",
            "power_state": None,
            "properties": {"cpus": "8", "memory_mb": 4096, "local_gb": 1},
            "extra": {"tidepool": str(OURS)},
            "instance_uuid": OURS.instance,
            "traits": ["CUSTOM_A"],
        },
        {"uuid": "v", "provision_state": "enroll", "properties": {"cpus": "many"}},
    ]
    (one, other) = hosts_of(nodes, [{"node_uuid": "u", "address": "52:54:00:00:00:AA", "pxe_enabled": False}])
    assert (one.called, one.power, one.cpus, one.memory_mib, one.claim) == ("u", "", 8, 4096, OURS)
    assert one.ports == (Port("52:54:00:00:00:aa", "", is_pxe_enabled=False),)
    assert other == host_of({"uuid": "v", "provision_state": "enroll"})
