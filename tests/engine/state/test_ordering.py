"""The order of resources in a snapshot."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tidepool.engine import urn as urns
from tidepool.engine.resource import ResourceState, Snapshot
from tidepool.engine.state.references import ordered, verify_integrity


def state(name: str, needs: str = "", provider: str = "") -> ResourceState:
    type = "pulumi:providers:m" if name == "p" else "m:m:M"
    return ResourceState(
        urn=urns.make("dev", "o", "", type, name),
        type=type,
        custom=True,
        id=f"{name}-1",
        dependencies=tuple(urns.make("dev", "o", "", "m:m:M", n) for n in needs),
        provider=provider,
    )


IN_ORDER = (
    state("a"),
    p := state("p", "a"),
    state("b", "a", f"{p.urn}::{p.id}"),
    state("c", "b"),
    state("d", "ac"),
    replace(state("c", "a"), id="c-0", delete=True),
)


@given(st.permutations(IN_ORDER))
def test_what_a_resource_needs_stands_before_it(mixed: list[ResourceState]) -> None:
    result = ordered(mixed)
    assert sorted(r.id for r in result) == sorted(r.id for r in mixed)
    verify_integrity(Snapshot(resources=result))
    assert ordered(result) == result


def test_what_is_in_order_stays_as_it_is() -> None:
    assert ordered(IN_ORDER) == IN_ORDER


def test_a_resource_is_needed_by_its_former_name_too() -> None:
    renamed = replace(state("x"), aliases=(state("a").urn,))
    child = state("b", "a")
    assert ordered([child, renamed]) == (renamed, child)


def test_of_those_that_need_each_other_one_lets_go() -> None:
    """What only depends on them does not."""
    c, a, b = state("c", "a"), state("a", "b"), state("b", "a")
    assert ordered([c, a, b]) == (state("a"), c, b)


def test_no_resource_lets_go_of_its_provider() -> None:
    """``p`` is said to depend on ``b`` only now, which is still one of ``p``."""
    p, b = state("p", "b"), state("b", "", f"{state('p').urn}::p-1")
    assert ordered([b, p]) == ordered([p, b]) == (state("p"), b)


NAMES = "abcde"


@given(st.lists(st.text(NAMES, max_size=3), min_size=5, max_size=5))
def test_any_resources_come_to_stand_in_order(needs: list[str]) -> None:
    result = ordered([state(name, need) for name, need in zip(NAMES, needs, strict=True)])
    assert sorted(urns.name_of(r.urn) for r in result) == list(NAMES)
    verify_integrity(Snapshot(resources=result))
