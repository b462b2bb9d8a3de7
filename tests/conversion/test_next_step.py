"""What a conversion does next, whatever is seen: total, never over the point of no return by itself, never two roles."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties import runs
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import ROLES, Role
from tidepool.conversion.kubernetes_side import members_verdict
from tidepool.conversion.next_step import Act, Enter, Mark, Observed, looks, next_step, other
from tidepool.conversion.ports import Verdict
from tidepool.conversion.record import CANCELLABLE, DEADLINES, ENDED, Conversion, Order, Work, deadline
from tidepool.conversion.slurm_side import controllers_verdict

AT = datetime(2026, 11, 22, 12, tzinfo=UTC)
IN_TURN = ("asked", "holding", "emptying", "leaving", "imaging", "joining", "restoring")
MARKS = {
    "holding": ("held",),
    "emptying": ("forced",),
    "leaving": ("lost", "forgotten", "barred"),
    "imaging": ("imaged",),
    "joining": ("prepared", "taken", "admitted", "again", "anew", "lost"),
    "restoring": ("released", "lost", "forgotten", "barred", "imaged", "prepared", "taken"),
    "asked": ("driven", "forgotten"),
}


@st.composite
def conversions(draw: st.DrawFn) -> Conversion:
    """One under way, with any of the marks that it may have by then."""
    to: Role = draw(st.sampled_from(ROLES))
    order = Order(
        "shared-1", "shared", to, AT, draw(st.sampled_from(["person", "scaler"])), "a test",
        is_forced=draw(st.booleans()), deadline_s=draw(st.sampled_from([1.0, 600.0])),
        at_deadline=draw(st.sampled_from(["stop", "force"])),
    )  # fmt: skip
    phase: Any = draw(st.sampled_from(IN_TURN))
    last = IN_TURN.index(phase)
    before = IN_TURN[: draw(st.integers(1, last)) if phase == "restoring" else last]
    began: dict[str, datetime] = {"driver/since": AT + timedelta(seconds=draw(st.integers(0, 10)))}
    for place, name in enumerate([*before, phase]):
        began[name] = AT + timedelta(seconds=place)
        began |= {f"{name}/{mark}": began[name] for mark in MARKS[name] if draw(st.booleans())}
    return Conversion(
        1, order, draw(st.sampled_from([None, "slurm", "kubernetes"])), phase, FrozenDict(began),
        cancel_by=draw(st.sampled_from(["", "anna"])), back_because="why",
    )  # fmt: skip


@st.composite
def sights(draw: st.DrawFn, conversion: Conversion) -> Observed:
    """What its looks may give."""
    wanted = looks(conversion)
    unknown: dict[Any, str] = {}
    seen: dict[Role, Any] = {}
    for role in wanted.sights:
        if draw(st.integers(0, 4)) == 0:
            unknown[role] = "no answer"
        else:
            seen[role] = draw(st.sampled_from(["absent", "joining", "held", "serving"]))
    if wanted.roles and draw(st.integers(0, 5)) == 0:
        unknown["machine"] = "no answer"
    roles = frozenset(draw(st.sets(st.sampled_from(ROLES)))) if "machine" not in unknown else frozenset()
    imaged = None
    if wanted.imaged and ("machine" not in unknown or draw(st.booleans())):
        imaged = frozenset(draw(st.sets(st.sampled_from(ROLES))))
    work = (Work("job", "1", "anna"),) if wanted.work in seen and draw(st.booleans()) else ()
    keeps = draw(st.sampled_from(["", "the quorum"])) if wanted.control else ""
    return Observed(
        roles=roles, imaged=imaged, sights=FrozenDict(seen),
        held_by=FrozenDict({role: draw(st.sampled_from(["", "root (disk)"])) for role in seen if seen[role] == "held"}),
        work=work, prepared=draw(st.booleans()), control=Verdict(keeps, bool(keeps) and draw(st.booleans())),
        unknown=FrozenDict(unknown), failing=FrozenDict({"machine": "no"} if draw(st.booleans()) else {}),
        refused=draw(st.sampled_from(["", "", "never"])) if unknown else "",
    )  # fmt: skip


@pytest.mark.parametrize(("took_s", "patience_s"), [(2, 40), (20, 40), (25, 50)])
def test_a_machine_that_is_slow_is_waited_for_before_it_begins_once_more(
    took_s: int, patience_s: int
) -> None:
    order = Order("shared-1", "shared", "kubernetes", AT, "person", "a test")
    began = dict.fromkeys(("driver/since", "asked", "holding", "emptying", "leaving", "joining"), AT)
    marks = dict.fromkeys(("joining/taken", "joining/admitted"), AT + timedelta(seconds=took_s))
    conversion = Conversion(1, order, "slurm", "joining", FrozenDict({**began, **marks}))
    seen = Observed(
        roles=frozenset({"kubernetes"}), sights=FrozenDict({"slurm": "absent", "kubernetes": "absent"})
    )

    def step(after_s: int) -> Act:
        found = next_step(conversion, seen, AT + timedelta(seconds=after_s))
        assert isinstance(found, Act)
        return found

    assert step(took_s + patience_s).verb == "admit"
    assert step(took_s + patience_s + 1) == Act("lose", "kubernetes", mark="again")


@given(st.data(), st.integers(-20, 2000))
@runs(1500)
def test_there_is_always_a_next_step_and_it_keeps_the_rules(data: st.DataObject, after_s: int) -> None:
    conversion = data.draw(conversions())
    seen = data.draw(sights(conversion))
    now = AT + timedelta(seconds=after_s)
    step = next_step(conversion, seen, now)
    to, phase = conversion.order.to, conversion.phase
    away = other(to)
    if isinstance(step, Enter):
        assert step.phase in ENDED or IN_TURN.index(step.phase) > IN_TURN.index(phase)
    if isinstance(step, Act):
        assert step.verb not in ("take", "lose", "prepare") or phase not in CANCELLABLE
        if step.verb == "take":
            assert other(step.role) not in seen.roles or phase == "restoring"
        if step.verb == "remove_node" and phase != "asked":
            assert step.role not in seen.roles
            assert not seen.work
        if step.verb == "lose" and phase == "leaving":
            assert step.role == away
            assert not seen.work
        if step.verb == "image":
            assert (phase, step.role) in (("imaging", to), ("restoring", conversion.leaves))
            assert not seen.work
            assert f"{phase}/imaged" not in conversion.began
    if phase == "leaving" and step in (Enter("imaging"), Enter("joining")):
        assert seen.sights[away] == "absent"
        assert (step == Enter("joining")) == (to in (seen.imaged or ()) and "machine" not in seen.unknown)
    if conversion.cancel_by and phase in CANCELLABLE:
        assert isinstance(step, Enter)
        assert step.phase in ("restoring", "stopped")
    if step == Enter("leaving"):
        assert phase == "emptying"
        assert seen.sights[away] != "serving"
        assert not seen.work
        assert not seen.control.keeps
    if isinstance(step, Mark):
        assert f"{phase}/{step.mark}" not in conversion.began
    until = deadline(conversion)
    assert until is not None
    if now >= until and not conversion.cancel_by:
        assert isinstance(step, Enter) or step == Mark("forced")
        following = 3 if phase == "leaving" else 2  # an image that has both roles stays
        if isinstance(step, Enter) and step.phase not in (
            *ENDED,
            *IN_TURN[: IN_TURN.index(phase) + following],
        ):
            assert step.phase == DEADLINES[phase][1]


@given(st.data())
@runs(300)
def test_a_side_that_does_not_answer_moves_nothing_before_the_deadline(data: st.DataObject) -> None:
    conversion = data.draw(conversions())
    assume(conversion.phase in ("asked", "holding", "leaving", "joining") and not conversion.cancel_by)
    seen = Observed(unknown=FrozenDict({"slurm": "slurmctld does not answer"}))
    until = deadline(conversion)
    assert until is not None
    step = next_step(conversion, seen, until - timedelta(seconds=1))
    assert getattr(step, "text", "") == "slurmctld does not answer"
    assert not isinstance(step, Act | Enter | Mark)


MEMBERS = frozenset({"a", "b", "c", "d", "e"})


@given(st.sets(st.sampled_from(sorted(MEMBERS)), min_size=1), st.sets(st.sampled_from(sorted(MEMBERS))))
def test_a_member_goes_only_where_a_majority_stays(members: set[str], well: set[str]) -> None:
    found = members_verdict("a", members | {"a"}, well)
    stay = members - {"a"}
    assert bool(found.keeps) == (2 * len(stay & well) <= len(stay))
    assert not found.hands_over


@pytest.mark.parametrize(
    ("well", "in_charge", "keeps", "hands_over"),
    [
        ("ab", "b", "", False),
        ("ab", "a", "takes over", True),
        ("ab", "", "takes over", True),
        ("a", "a", "no other controller", False),
    ],
)
def test_a_controller_goes_when_another_is_in_charge(
    well: str, in_charge: str, keeps: str, hands_over: bool
) -> None:
    found = controllers_verdict("a", frozenset(well), in_charge)
    assert (keeps in found.keeps, found.hands_over) == (True, hands_over)
    assert bool(found.keeps) == bool(keeps)
