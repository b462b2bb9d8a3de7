"""Conversions, driven to their ends: graceful, forced, cancelled, late; sides that fail, and drivers that die."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.conversion.world import START, World
from tidepool.cluster.roles import ROLES, Role
from tidepool.conversion.kubernetes_side import members_verdict
from tidepool.conversion.ports import ConversionError
from tidepool.conversion.record import Conversion, longest_s
from tidepool.conversion.slurm_side import controllers_verdict


def is_only(world: World, role: Role) -> None:
    """It has this role, both sides say so, and of the other nothing is left."""
    other: Role = "kubernetes" if role == "slurm" else "slurm"
    assert world.machine.roles_now() == {role}
    assert world.sides[role].sight() == "serving"
    assert world.sides[other].sight() == "absent"
    assert not world.machine.left_behind(other)
    assert not world.sides[other].left


@pytest.mark.parametrize(("leaves", "to"), [("slurm", "kubernetes"), ("kubernetes", "slurm")])
def test_an_idle_machine_moves(world: World, leaves: Role, to: Role) -> None:
    world.serve(leaves)
    done = world.drive(world.order(to))
    assert (done.phase, done.text) == ("done", "")
    is_only(world, to)
    phases = [name for name in done.began if "/" not in name]
    assert phases == ["asked", "holding", "emptying", "leaving", "joining", "done"]
    assert done.ended is not None
    assert (done.ended - done.order.at).total_seconds() < 1.5


def test_a_machine_without_a_role_takes_its_first(world: World) -> None:
    done = world.drive(world.order("slurm"))
    assert done.phase == "done"
    assert "holding/held" not in done.began
    is_only(world, "slurm")


def test_a_machine_that_has_the_role_is_left_alone(world: World) -> None:
    world.serve("slurm")
    done = world.drive(world.order("slurm"))
    assert (done.phase, done.text) == ("done", "it serves Slurm already")
    assert not [
        call for call in world.calls if call.startswith(("machine.take", "machine.lose", "slurm.hold"))
    ]


def test_a_machine_of_both_roles_loses_the_one_that_it_should_not_have_first(world: World) -> None:
    world.at = lambda _: None
    world.serve("slurm")
    world.serve("kubernetes")
    done = world.drive(world.order("kubernetes"))
    assert done.phase == "done"
    is_only(world, "kubernetes")
    assert world.calls.index("machine.lose slurm") < world.calls.index("machine.take kubernetes")


def test_a_graceful_one_waits_for_a_job_and_says_so(world: World) -> None:
    world.serve("slurm")
    world.sides["slurm"].begin("4711", 100)
    output_of: list[Conversion] = []
    done = world.drive(world.order("kubernetes"), output_of.append)
    assert done.phase == "done"
    assert "waits for job 4711 of anna" in {each.text for each in output_of}
    assert [(work.name, work.fate) for work in done.work] == [("4711", "ended")]
    assert done.ended is not None
    assert 100 <= (done.ended - START).total_seconds() < 110


def test_a_job_longer_than_the_deadline_stops_it_and_is_named(world: World) -> None:
    world.serve("slurm")
    world.sides["slurm"].begin("4711", stays=True)
    done = world.drive(world.order("kubernetes", deadline_s=30))
    assert done.phase == "stopped"
    assert done.text == "its work did not end within 30 s: waits for job 4711 of anna (runs on)"
    is_only(world, "slurm")
    assert [(work.name, work.fate) for work in done.work] == [("4711", "runs")]


def test_the_deadline_forces_where_the_pool_says_so(world: World) -> None:
    world.serve("slurm")
    world.sides["slurm"].begin("4711")
    done = world.drive(world.order("kubernetes", deadline_s=30, at_deadline="force"))
    assert done.phase == "done"
    assert [(work.name, work.fate, work.text) for work in done.work] == [("4711", "requeued", "told")]
    is_only(world, "kubernetes")


def test_a_forced_one_waits_for_nothing(world: World) -> None:
    world.serve("kubernetes")
    world.sides["kubernetes"].begin("web")
    done = world.drive(world.order("slurm", is_forced=True))
    assert done.phase == "done"
    assert done.work[0].fate == "requeued"
    assert done.ended is not None
    assert (done.ended - START).total_seconds() < 2


def at_nth(world: World, call: str, act: Callable[[], None], nth: int = 1) -> None:
    """When ``call`` is made for the nth time, ``act`` happens, besides the checks."""
    left = [nth]

    def at(happened: str) -> None:
        world.check()
        if happened == call:
            left[0] -= 1
            if left[0] == 0:
                act()

    world.at = at


def test_it_is_forced_while_it_waits(world: World) -> None:
    world.serve("slurm")
    world.sides["slurm"].begin("4711")
    conversion = world.order("kubernetes")
    at_nth(world, "wait", lambda: void(world.journal.force("shared-1", "anna")), 5)
    done = world.drive(conversion)
    assert done.phase == "done"
    assert done.order.is_forced
    assert done.work[0].fate == "requeued"


def void(_: object) -> None:
    """What is called for its effect."""


@pytest.mark.parametrize(
    "when", ["slurm.see", "slurm.hold", "slurm.hold!", "slurm.work", "wait", "journal.write!"]
)
def test_it_is_cancelled_before_the_point_of_no_return(world: World, when: str) -> None:
    world.serve("slurm")
    world.sides["slurm"].begin("4711")
    conversion = world.order("kubernetes")
    at_nth(world, when, lambda: void(world.journal.cancel("shared-1", "anna")))
    done = world.drive(conversion)
    assert (done.phase, done.text) == ("stopped", "cancelled by anna")
    is_only(world, "slurm")
    assert world.sides["slurm"].hold_of == ""


def test_a_cancel_that_comes_as_it_leaves_is_in_time_or_refused(world: World) -> None:
    """The journal decides, in one transaction: no machine leaves that was told to stay."""
    outcomes = set()
    for nth in range(1, 40):
        again = World(world.folder / str(nth))
        again.serve("slurm")
        conversion = again.order("kubernetes")
        said: list[str] = []

        def cancel(again: World = again, said: list[str] = said) -> None:
            try:
                again.journal.cancel("shared-1", "anna")
                said.append("yes")
            except ConversionError:
                said.append("no")

        calls = [0]

        def at(_: str, again: World = again, calls: list[int] = calls, nth: int = nth) -> None:
            again.check()
            calls[0] += 1
            if calls[0] == nth:
                cancel()

        again.at = at
        done = again.drive(conversion)
        assert done.phase == {"yes": "stopped", "no": "done"}[said[0]], f"at call {nth}"
        is_only(again, "slurm" if said[0] == "yes" else "kubernetes")
        outcomes.add(said[0])
    assert outcomes == {"yes", "no"}


def test_a_hold_of_a_person_is_moved_by_a_person_only(world: World) -> None:
    world.serve("slurm")
    world.sides["slurm"].hold_of = "root: bad disk"
    done = world.drive(world.order("kubernetes", by="scaler"))
    assert done.phase == "stopped"
    assert "root: bad disk" in done.text
    assert world.sides["slurm"].hold_of == "root: bad disk"
    assert world.drive(world.order("kubernetes", by="person")).phase == "done"


def test_a_hold_of_a_person_survives_a_cancel(world: World) -> None:
    world.serve("slurm")
    world.sides["slurm"].hold_of = "root: bad disk"
    world.sides["slurm"].begin("4711")
    conversion = world.order("kubernetes")
    at_nth(world, "wait", lambda: void(world.journal.cancel("shared-1", "anna")))
    assert world.drive(conversion).phase == "stopped"
    assert world.sides["slurm"].hold_of == "root: bad disk"


def test_what_does_not_join_goes_back(world: World) -> None:
    world.serve("slurm")
    world.sides["kubernetes"].joins_after_s = None
    done = world.drive(world.order("kubernetes"))
    assert done.phase == "stopped"
    assert done.text == "it did not join Kubernetes within 120 s: Kubernetes does not see it serve yet"
    is_only(world, "slurm")


@pytest.mark.parametrize("role", ROLES)
def test_what_its_side_has_forgotten_begins_anew_at_once(world: World, role: Role) -> None:
    """As slurmctld forgets the last seconds before a `kill -9`, and as somebody may delete a Node."""
    world.serve(role)
    world.sides[role].known_since = None
    world.at = lambda _: world.check()
    done = world.drive(world.order(role))
    assert done.phase == "done"
    assert done.ended is not None
    assert (done.ended - START).total_seconds() < 2
    is_only(world, role)


def test_what_nobody_has_heard_of_begins_to_join_once_more(world: World) -> None:
    world.serve("slurm")
    world.sides["kubernetes"].joins_after_s = None

    def again(call: str) -> None:
        world.check()
        if call == "machine.lose kubernetes":
            world.sides["kubernetes"].joins_after_s = 0.3

    world.at = again
    done = world.drive(world.order("kubernetes"))
    assert done.phase == "done"
    assert world.calls.count("kubernetes.prepare") == world.calls.count("machine.take kubernetes") == 2
    assert done.ended is not None
    assert 40 < (done.ended - START).total_seconds() < 45
    is_only(world, "kubernetes")


def test_a_machine_without_a_role_that_does_not_join_has_failed(world: World) -> None:
    world.sides["kubernetes"].joins_after_s = None
    done = world.drive(world.order("kubernetes"))
    assert done.phase == "failed"
    assert world.machine.roles_now() == frozenset()
    world.sides["kubernetes"].joins_after_s = 1
    assert world.drive(world.order("kubernetes")).phase == "done"
    is_only(world, "kubernetes")


def test_a_side_that_cannot_be_asked_moves_nothing_and_it_is_said(world: World) -> None:
    world.serve("slurm")
    world.sides["slurm"].faults["*"] = "slurmctld does not answer"
    done = world.drive(world.order("kubernetes"))
    assert done.phase == "stopped"
    assert done.text == "nothing was done within 60 s: slurmctld does not answer"
    assert not [call for call in world.calls if "lose" in call or "hold" in call]


def test_a_side_that_cannot_be_asked_for_a_while_is_waited_for(world: World) -> None:
    world.serve("slurm")
    side = world.sides["slurm"]

    def fail() -> None:
        side.faults["*"] = "slurmctld does not answer"

    at_nth(world, "slurm.hold!", fail)
    output_of: list[str] = []

    def told(conversion: Conversion) -> None:
        output_of.append(conversion.text)
        if (world.time - START).total_seconds() > 20:
            side.faults.clear()

    conversion = world.order("kubernetes")
    at_nth(world, "wait", side.faults.clear, 40)
    side.faults["hold"] = "slurmctld does not answer"
    assert world.drive(conversion, told).phase == "done"
    assert "slurmctld does not answer" in output_of


def test_it_goes_back_without_the_side_that_could_not_be_asked(world: World) -> None:
    """The other side fails for good as the machine joins it: Slurm has the machine again all the same."""
    world.serve("slurm")
    broken = world.sides["kubernetes"]

    def fail() -> None:
        broken.faults["*"] = "the API server cannot be reached"

    at_nth(world, "machine.take kubernetes!", fail)
    done = world.drive(world.order("kubernetes"))
    assert done.phase == "stopped"
    assert "could not be made to forget it: the API server cannot be reached" in done.text
    assert world.machine.roles_now() == {"slurm"}
    assert world.sides["slurm"].sight() == "serving"
    assert not world.machine.left_behind("kubernetes")
    broken.faults.clear()
    assert world.drive(world.order("kubernetes")).phase == "done"
    is_only(world, "kubernetes")


@pytest.mark.slow
@pytest.mark.parametrize("to", ["slurm", "kubernetes"])
@pytest.mark.parametrize("mode", ["idle", "forced", "late"])
def test_a_driver_that_is_killed_at_any_call_is_gone_on_for(tmp_path: Path, to: Role, mode: str) -> None:
    """Killed at the nth call, and again at each nth call of those who go on: the machine arrives, and nothing is lost."""
    leaves: Role = "kubernetes" if to == "slurm" else "slurm"
    nth, was_killed = 0, True
    while was_killed:
        nth += 1
        world = World(tmp_path / f"{nth}")
        world.serve(leaves)
        if mode != "idle":
            world.sides[leaves].begin("4711")
        if mode == "late":
            world.sides[to].joins_after_s = None
            world.haste = 50
        calls = [0]

        def at(_: str, world: World = world, calls: list[int] = calls, nth: int = nth) -> None:
            world.check()
            calls[0] += 1
            world.killed = calls[0] == nth

        world.at = at
        conversion = world.order(to, is_forced=mode != "idle")
        was_killed = world.drive_killed(conversion)
        world.at = lambda _, world=world: world.check()  # type: ignore[misc]
        done = world.drive(conversion)
        assert done.phase == ("stopped" if mode == "late" else "done"), f"killed at call {nth}: {done.text}"
        is_only(world, leaves if mode == "late" else to)
        if mode != "idle":
            assert [work.name for work in done.work] == ["4711"]
    assert nth > 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "to"),
    [
        ("forced", "kubernetes"),
        ("forced", "slurm"),
        ("late", "kubernetes"),
        ("unbootable", "slurm"),
        ("both", "kubernetes"),
    ],
)
def test_a_driver_that_is_killed_at_any_call_of_an_imaging_is_gone_on_for(
    tmp_path: Path, mode: str, to: Role
) -> None:
    """The same with an image for each role: it comes up with the new one, or with the old one as it was, and nothing is lost."""
    leaves: Role = "kubernetes" if to == "slurm" else "slurm"
    nth, was_killed = 0, True
    while was_killed:
        nth += 1
        world = World(tmp_path / f"{nth}")
        world.serve_by_image(leaves)
        world.sides[leaves].begin("4711")
        # The waiting for a machine that boots is the same again and again.
        world.haste = 200
        if mode == "late":
            world.sides[to].joins_after_s = None
        if mode in ("unbootable", "both"):
            world.machine.boots_s[to] = None
        if mode == "both":
            world.machine.boots_s[leaves] = None
        calls = [0]

        def at(_: str, world: World = world, calls: list[int] = calls, nth: int = nth) -> None:
            world.check()
            calls[0] += 1
            world.killed = calls[0] == nth

        world.at = at
        conversion = world.order(to, is_forced=True)
        was_killed = world.drive_killed(conversion)
        world.at = lambda _, world=world: world.check()  # type: ignore[misc]
        done = world.drive(conversion)
        ends = {"forced": "done", "both": "failed"}.get(mode, "stopped")
        assert done.phase == ends, f"killed at call {nth}: {done.text}"
        assert world.machine.disk == (to if mode == "forced" else leaves)
        if mode != "both":
            is_only(world, to if mode == "forced" else leaves)
        assert [work.name for work in done.work] == ["4711"]
    assert nth > 40


@pytest.mark.parametrize(("leaves", "to"), [("slurm", "kubernetes"), ("kubernetes", "slurm")])
def test_an_idle_machine_whose_roles_have_an_image_each_is_made_anew(
    world: World, leaves: Role, to: Role
) -> None:
    world.serve_by_image(leaves)
    done = world.drive(world.order(to))
    assert (done.phase, done.text, world.machine.disk) == ("done", "", to)
    is_only(world, to)
    phases = [name for name in done.began if "/" not in name]
    assert phases == ["asked", "holding", "emptying", "leaving", "imaging", "joining", "done"]
    # Its credentials are shredded before its disk is taken away.
    assert world.calls.index(f"machine.lose {leaves}!") < world.calls.index(f"machine.image {to}")
    assert world.calls.count(f"machine.image {to}") == 1
    assert done.began["imaging/imaged"] < done.began["joining"]


def test_a_machine_that_has_the_image_of_its_role_keeps_it(world: World) -> None:
    """A role that is taken anew, or for the first time, is none of another image."""
    world.serve_by_image("slurm")
    world.sides["slurm"].known_since = None
    assert world.drive(world.order("slurm")).phase == "done"
    assert not [call for call in world.calls if call.startswith("machine.image ")]


def test_a_machine_whose_first_role_is_not_that_of_the_image_that_it_was_made_from(world: World) -> None:
    world.machine.disk = "slurm"
    world.machine.boots_s["kubernetes"] = None
    done = world.drive(world.order("kubernetes"))
    assert done.phase == "failed"
    assert "it did not come up with the image of Kubernetes within 600 s" in done.text
    world.machine.boots_s["kubernetes"] = 45
    assert world.drive(world.order("kubernetes")).phase == "done"
    is_only(world, "kubernetes")
    assert world.calls.count("machine.image kubernetes") == 2


def test_an_image_that_does_not_boot_is_gone_back_from(world: World) -> None:
    world.serve_by_image("slurm")
    world.machine.boots_s["kubernetes"] = None
    conversion = world.order("kubernetes")
    done = world.drive(conversion)
    assert done.phase == "stopped"
    assert done.text == "it did not come up with the image of Kubernetes within 600 s: it boots"
    assert world.machine.disk == "slurm"
    is_only(world, "slurm")
    assert done.ended is not None
    assert 600 < (done.ended - START).total_seconds() < 660


def test_a_machine_that_no_image_boots_has_failed_and_the_next_order_makes_it_anew(world: World) -> None:
    world.serve_by_image("slurm")
    world.machine.boots_s = {"slurm": None, "kubernetes": None}
    conversion = world.order("kubernetes")
    done = world.drive(conversion)
    assert done.phase == "failed"
    assert done.text == (
        "it did not come up with the image of Kubernetes within 600 s: it boots; then it could not be made what it was: it boots"
    )
    assert done.ended is not None
    assert (done.ended - START).total_seconds() <= longest_s(conversion.order, by_image=True)
    world.machine.boots_s = {"slurm": 40, "kubernetes": 45}
    # Nobody can ask it anything, and nobody knows it: nothing is lost by that.
    assert world.drive(world.order("slurm")).phase == "done"
    is_only(world, "slurm")


@pytest.mark.parametrize("to", ROLES)
@pytest.mark.parametrize("by_image", [True, False])
def test_a_driver_that_is_killed_at_any_call_of_a_conversion_of_a_machine_that_is_off_is_gone_on_for(
    tmp_path: Path, to: Role, by_image: bool
) -> None:
    """Its power went while a job ran; Slurm knows it still. It is booted once with the image of the role that it is to have."""
    nth, was_killed = 0, True
    while was_killed:
        nth += 1
        world = World(tmp_path / f"{nth}")
        if by_image:
            world.serve_by_image("slurm")
        else:
            world.serve("slurm")
        world.sides["slurm"].begin("4711")
        world.cut_power()
        world.haste = 200
        calls = [0]

        def at(_: str, world: World = world, calls: list[int] = calls, nth: int = nth) -> None:
            world.check()
            calls[0] += 1
            world.killed = calls[0] == nth

        world.at = at
        conversion = world.order(to, is_forced=True)
        was_killed = world.drive_killed(conversion)
        world.at = lambda _, world=world: world.check()  # type: ignore[misc]
        done = world.drive(conversion)
        assert done.phase == "done", f"killed at call {nth}: {done.text}"
        assert world.machine.disk == (to if by_image else None)
        is_only(world, to)
    assert nth > 40


def test_a_machine_that_is_off_and_is_to_be_what_it_was_is_booted(world: World) -> None:
    world.serve("slurm")
    world.cut_power()
    done = world.drive(world.order("slurm"))
    assert (done.phase, [name for name in done.began if "/" not in name][4:]) == (
        "done",
        ["imaging", "joining", "done"],
    )
    is_only(world, "slurm")


def test_a_machine_that_is_off_and_does_not_boot_has_failed_and_the_next_order_boots_it(world: World) -> None:
    world.serve("slurm")
    world.cut_power()
    world.machine.boots_s["kubernetes"] = None
    done = world.drive(world.order("kubernetes"))
    assert (done.phase, "did not come up" in done.text) == ("failed", True)
    world.machine.boots_s["kubernetes"] = 45
    # It is on and does not answer; no side knows it.
    world.machine.boots_anew = True
    assert world.drive(world.order("kubernetes")).phase == "done"
    is_only(world, "kubernetes")


def test_a_machine_that_does_not_answer_and_that_a_side_knows_is_not_made_anew(world: World) -> None:
    world.serve_by_image("slurm")
    world.machine.up = None
    done = world.drive(world.order("kubernetes"))
    assert (done.phase, done.text) == ("stopped", "nothing was done within 60 s: it boots")
    assert not [call for call in world.calls if call.startswith("machine.image ")]


def test_what_cannot_be_imaged_goes_back_to_what_it_was(world: World) -> None:
    world.serve_by_image("slurm")
    world.machine.faults["image kubernetes"] = "no space left on device"
    done = world.drive(world.order("kubernetes"))
    assert done.phase == "stopped"
    assert done.text.endswith("within 600 s: no space left on device")
    is_only(world, "slurm")


def test_one_that_dies_while_it_joins_is_made_anew_from_the_image_that_it_had(world: World) -> None:
    """It says nothing any more, so nothing can be taken from it; its disk goes with all that is on it."""
    world.serve_by_image("slurm")
    world.sides["kubernetes"].joins_after_s = None

    def dies() -> None:
        world.machine.up = None
        world.machine.running.clear()

    at_nth(world, "machine.take kubernetes!", dies)
    done = world.drive(world.order("kubernetes"))
    assert done.phase == "stopped"
    assert world.machine.disk == "slurm"
    is_only(world, "slurm")


def test_an_imaging_is_past_the_point_of_no_return(world: World) -> None:
    world.serve_by_image("slurm")
    said: list[str] = []

    def cancel() -> None:
        try:
            world.journal.cancel("shared-1", "anna")
        except ConversionError as error:
            said.append(str(error))

    at_nth(world, "machine.image kubernetes half", cancel)
    assert world.drive(world.order("kubernetes")).phase == "done"
    assert "past the point of no return (imaging)" in said[0]


@pytest.mark.parametrize("to", ["slurm", "kubernetes"])
@pytest.mark.parametrize("call", ["machine.lose {} half", "machine.take {} half", "{}.hold!"])
def test_one_that_nobody_drove_for_an_hour_goes_on_where_it_was(world: World, to: Role, call: str) -> None:
    leaves: Role = "kubernetes" if to == "slurm" else "slurm"
    world.serve(leaves)
    conversion = world.order(to, deadline_s=7200)
    at_nth(world, call.format(to if "take" in call else leaves), lambda: setattr(world, "killed", True))
    assert world.drive_killed(conversion)
    world.wait(3600)
    assert world.drive(conversion).phase == "done"
    is_only(world, to)


def test_a_driver_that_lives_is_waited_for(world: World) -> None:
    world.serve("slurm")
    conversion = world.order("kubernetes")
    assert world.journal.take_over(conversion.id, "another", world.time, 30)
    done = world.drive(conversion)
    assert done.phase == "done"
    assert done.ended is not None
    assert 30 < (done.ended - START).total_seconds() < 33


def test_a_control_node_leaves_when_a_backup_has_taken_over(world: World) -> None:
    world.serve("slurm")
    side, in_charge = world.sides["slurm"], ["shared-1"]
    side.judges = lambda: controllers_verdict("shared-1", ("shared-1", "shared-2"), in_charge[0])
    side.hands_over = lambda: in_charge.insert(0, "shared-2")
    done = world.drive(world.order("kubernetes"))
    assert done.phase == "done"
    assert side.handed == 1


def test_a_control_node_that_is_called_back_as_another_took_over_runs_all_of_its_role_again(
    world: World,
) -> None:
    world.serve("slurm")
    side = world.sides["slurm"]
    side.judges = lambda: controllers_verdict("shared-1", ("shared-1", "shared-2"), "shared-1")
    # The other one takes its time, and somebody cancels meanwhile.

    def called_back() -> None:
        world.journal.cancel("shared-1", "anna")

    side.hands_over = called_back
    calls: list[str] = []
    world.at = calls.append
    done = world.drive(world.order("kubernetes"))
    assert (done.phase, done.text, side.handed) == ("stopped", "cancelled by anna", 1)
    assert "machine.take slurm" in calls
    assert not any(call.startswith("machine.lose") for call in calls)
    is_only(world, "slurm")
    assert side.hold_of == ""


def test_a_control_node_that_nobody_replaces_stays(world: World) -> None:
    world.serve("kubernetes")
    world.sides["kubernetes"].judges = lambda: members_verdict(
        "shared-1", ("shared-1", "shared-2"), ("shared-1",)
    )
    done = world.drive(world.order("slurm"))
    assert done.phase == "stopped"
    assert "without it 0 of 1 would be well, and 1 must be" in done.text
    is_only(world, "kubernetes")


def test_the_longest_that_it_lasts_is_the_sum_of_its_deadlines(world: World) -> None:
    world.serve("slurm")
    world.sides["slurm"].begin("4711", stays=True)
    conversion = world.order("kubernetes", deadline_s=30, at_deadline="force")
    for side in world.sides.values():
        side.faults.update(force_out="no", release="no")
    done = world.drive(conversion)
    assert done.phase == "failed"
    assert done.ended is not None
    assert (done.ended - START).total_seconds() <= longest_s(conversion.order)


def test_a_machine_that_answers_slowly_is_asked_more_seldom(world: World) -> None:
    """An answer takes it a processor, which it needs for what is waited for."""
    answer_s = 1.5

    def slowly(call: str) -> None:
        if call == "machine.roles":
            world.time += timedelta(seconds=answer_s)

    world.at = slowly
    world.serve("slurm")
    world.sides["kubernetes"].joins_after_s = 30
    done = world.drive(world.order("kubernetes"))
    assert done.phase == "done"
    joining_s = (done.began["done"] - done.began["joining"]).total_seconds()
    last_calls = world.calls[world.calls.index("machine.take kubernetes") :]
    assert 0 < last_calls.count("machine.roles") * answer_s < joining_s / 4
