"""Which role each machine of a pool should have."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cluster.specs import POOL
from tidepool.cluster.desired_state import role_set
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.pool import ConvergedPool


def pool(machines: int = 4, **limits: int) -> ConvergedPool:
    return ConvergedPool.model_validate({**POOL, "machines": machines, **limits})


def serving(found: object) -> str:
    assert isinstance(found, dict)
    return str(HostSet.from_names(name for name, role in found.items() if role == "kubernetes"))


def test_at_first_all_serve_slurm_but_for_the_minimum() -> None:
    assert serving(role_set(pool())) == ""
    assert serving(role_set(pool(kubernetes_min=1))) == "shared-4"
    assert serving(role_set(pool(slurm_max=1))) == "shared-[2-4]"


def test_a_wish_is_taken_as_it_is() -> None:
    assert serving(role_set(pool(), desired="shared-[1,3]", last="shared-4")) == "shared-[1,3]"
    assert serving(role_set(pool(), desired="", last="shared-4")) == ""


def test_a_persons_up_moves_no_machine_that_was_moved() -> None:
    assert serving(role_set(pool(), last="shared-2")) == "shared-2"
    # Those that a smaller pool no longer has serve nobody.
    assert serving(role_set(pool(machines=2), last="shared-[2-4]")) == "shared-2"


@pytest.mark.parametrize(
    ("limits", "wish", "said"),
    [
        ({}, "cpu-1", r"cpu-1 is no machine of the pool shared: its machines are shared-\[1-4\]"),
        ({}, "shared-5", "shared-5 is no machine of the pool shared"),
        ({"slurm_min": 2}, "shared-[1-3]", "3 of its 4 machines would serve Kubernetes; between 0 and 2 can"),
        ({"kubernetes_min": 1}, "", "0 of its 4 machines would serve Kubernetes; between 1 and 4 can"),
    ],
)
def test_a_wish_that_cannot_be_is_refused(limits: dict[str, int], wish: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        role_set(pool(**limits), desired=wish)


@st.composite
def pools(draw: st.DrawFn) -> ConvergedPool:
    machines = draw(st.integers(1, 12))
    serving = draw(st.integers(0, machines))
    return pool(
        machines,
        slurm_min=draw(st.integers(0, machines - serving)),
        slurm_max=draw(st.integers(machines - serving, machines)),
        kubernetes_min=draw(st.integers(0, serving)),
        kubernetes_max=draw(st.integers(serving, machines)),
    )


@settings(deadline=None)
@given(pools(), st.sets(st.integers(1, 15)))
def test_each_machine_has_one_role_the_limits_are_kept_and_no_more_moves_than_need_be(
    of: ConvergedPool, last: set[int]
) -> None:
    before = HostSet.from_names(f"shared-{n}" for n in last)
    roles = role_set(of, last=str(before))
    assert [*roles] == [slot.node_name for slot in of.slots()]
    for role in ("slurm", "kubernetes"):
        assert of.least(role) <= [*roles.values()].count(role) <= of.most(role)
    after = HostSet(serving(roles))
    were = HostSet.from_names(name for name in roles if name in before)
    assert after <= were or were <= after, "machines move in one direction only"
    # It is settled: the next one moves nothing.
    assert role_set(of, last=str(after)) == roles
    assert role_set(of, desired=str(after)) == roles


def test_a_wish_may_be_nearer_to_the_limits_than_what_is_and_no_further() -> None:
    # A minimum that a conversion could not fill: one more does, and two are not to be had at once.
    limits = pool(machines=4, kubernetes_min=3)
    assert role_set(limits, desired="shared-[1-2]", last="shared-1")["shared-2"] == "kubernetes"
    assert role_set(limits, desired="shared-2", last="shared-1")["shared-2"] == "kubernetes"
    with pytest.raises(ValueError, match="between 3 and 4 can"):
        role_set(limits, desired="", last="shared-1")
    with pytest.raises(ValueError, match="between 3 and 4 can"):
        role_set(limits, desired="shared-[1-2]", last="shared-[1-3]")
