"""Hosts read from what Redfish says, and matched with what machines need."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.metal.inventory import (
    Claim,
    Facts,
    Need,
    Plan,
    facts_of,
    plan,
    taken,
    unfit,
)

KEY = MachineKey("one", "cpu-1")
names = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
claims = st.builds(Claim, names, names, st.integers(0, 2**32 - 1).map("{:08x}".format))
facts = st.builds(
    Facts,
    power=st.sampled_from(["On", "Off", "PoweringOn", "Unknown"]),
    tag=st.one_of(st.just(""), st.just("rack 7"), claims.map(str)),
    cpus=st.one_of(st.none(), st.integers(1, 256)),
    memory_mib=st.one_of(st.none(), st.integers(1, 2**20)),
    media=st.sampled_from([(), ("CD", "DVD"), ("Floppy",)]),
)
needs = st.builds(Need, st.integers(1, 256), st.integers(1, 2**20))


def a_host(**told: Any) -> Facts:
    return Facts(**{"power": "Off", "cpus": 16, "memory_mib": 65536, "media": ("CD",), **told})


@given(claims)
def test_a_claim_is_what_its_tag_says(claim: Claim) -> None:
    assert Claim.read(str(claim)) == claim


@pytest.mark.parametrize("tag", ["", "Chicago-45Z-2381", "tidepool:one/cpu-1", "tidepool:one/cpu-1/xyz"])
def test_other_tags_are_no_claims(tag: str) -> None:
    assert Claim.read(tag) is None


@given(st.dictionaries(names, st.one_of(facts, st.just("nothing answers")), max_size=6), needs)
def test_no_host_is_planned_that_is_not_free_and_fit_and_each_other_says_why(
    hosts: dict[str, Facts | str], need: Need
) -> None:
    found = plan(KEY, need, hosts, {})
    if found.held:
        held = hosts[found.held]
        assert isinstance(held, Facts)
        assert held.claim is not None
        assert (held.claim.stack, held.claim.node) == ("one", "cpu-1")
        return
    assert {*found.candidates} | {*found.reasons} == {*hosts}
    assert {*found.candidates}.isdisjoint(found.reasons)
    for name in found.candidates:
        told = hosts[name]
        assert isinstance(told, Facts)
        assert (told.tag, told.power, unfit(told, need)) == ("", "Off", ())
    assert all(found.reasons.values())


def test_the_smallest_that_fits_comes_first() -> None:
    hosts: dict[str, Facts | str] = {
        "big": a_host(memory_mib=2**20),
        "small": a_host(memory_mib=1024),
        "right": a_host(),
        "silent": "nothing answers",
    }
    assert plan(KEY, Need(16, 65536), hosts, {}) == Plan(
        candidates=("right", "big"),
        reasons={
            "small": "it has 1024 MiB of memory, and the shape with its overhead 65536 MiB: lower memory of the shape, or name another host",
            "silent": "nothing answers",
        },
    )


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"cpus": 4}, "it has 4 cpus, and the shape 8"),
        ({"memory_mib": 100}, "it has 100 MiB of memory"),
        ({"media": ("Floppy",)}, "no virtual CD"),
        ({"boots_from": ("Pxe", "Hdd")}, "boots from Pxe, Hdd when it is told to, and from no CD"),
        ({"attributes": {"Other": 1}}, "its BIOS has no LogicalProc"),
        ({"attributes": None}, "its BIOS offers no attributes"),
    ],
)
def test_what_a_host_lacks_is_told_with_the_remedy(told: dict[str, Any], said: str) -> None:
    (why,) = unfit(
        a_host(**{"attributes": {"LogicalProc": "On"}, **told}), Need(8, 1024, {"LogicalProc": "Off"})
    )
    assert said in why


def test_a_host_that_somebody_has_is_not_taken() -> None:
    assert "node cpu-1 of the stack two" in taken(a_host(tag="tidepool:two/cpu-1/00000000"), "")
    assert "not for us to overwrite" in taken(a_host(tag="Chicago-45Z-2381"), "")
    assert taken(a_host(tag="Chicago-45Z-2381"), "Chicago-45Z-2381") == ""
    assert "it is On, and no node of any stack" in taken(a_host(power="On"), "")
    # A power that is not told may be on.
    assert "it is Unknown" in taken(facts_of({}), "")


def test_facts_are_what_redfish_says() -> None:
    found = facts_of(
        {
            "PowerState": "Off",
            "AssetTag": None,
            "Manufacturer": "Dell Inc.",
            "Model": "PowerEdge R6525",
            "ProcessorSummary": {"Count": 2, "CoreCount": 64, "LogicalProcessorCount": 128},
            "MemorySummary": {"TotalSystemMemoryGiB": 476.837},
            "Boot": {"BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Cd"]},
            "Status": {"Health": "OK"},
        },
        media=[{"MediaTypes": ["CD", "DVD"]}, {"MediaTypes": None}],
        interfaces=[{"MACAddress": "B0:7B:25:00:00:01"}, {}],
    )
    assert (found.cpus, found.memory_mib, found.model) == (128, 488281, "Dell Inc. PowerEdge R6525")
    assert (found.media, found.macs) == (("CD", "DVD"), ("b0:7b:25:00:00:01",))
    # Sockets are no processors.
    assert facts_of({"ProcessorSummary": {"Count": 2}}).cpus is None
