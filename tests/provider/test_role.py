"""What a role's resource does, with a machine and both sides in memory, and the real journal and driver of conversions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conversion.world import Killed, World
from tests.provider.calls import Calls, Difference, plainly
from tidepool.clients.kubernetes.objects import PoolMachine
from tidepool.cluster.desired_state import FORCE_SETTINGS as REGARDLESS
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import ROLES, Role
from tidepool.conversion.convert import Parties
from tidepool.conversion.journal import Journal
from tidepool.conversion.next_step import other
from tidepool.conversion.slurm_side import controllers_verdict
from tidepool.provider.provider import EngineLog, InitializationFailed, TidepoolProvider
from tidepool.provider.role import Around, RoleKind
from tidepool.resources.declarations import RoleModel
from tidepool.resources.kind import Home, Refusal

NODE = "shared-1"


def inputs(**changes: Any) -> dict[str, Any]:
    return {
        "node": NODE,
        "pool": "shared",
        "role": "slurm",
        "machine": {"kind": "local", "stack": "dev", "machine": NODE},
        "controller": {"kind": "local", "stack": "dev", "machine": "ctl"},
        "access": "kubernetes",
        "boots": {"slurm": "shared-slurm", "kubernetes": "shared-kubernetes"},
        "podSubnet": "10.240.1.0/24",
        "deadlineS": 60,
        "atDeadline": "stop",
        "slots": "shared",
        **changes,
    }


class Provider(Calls):
    """A provider of a stack with one machine of a pool, and of the world around that."""

    def __init__(self, data: Path, environment: Mapping[str, str] = FrozenDict()) -> None:
        super().__init__(data, "tidepool:pool:Role")
        self.world = World(data / "dev")
        self.runs = True
        self.shown: list[PoolMachine | None] = []
        around = Around(self._parties, lambda _: self.runs, self._opened, self.world.now, self.world.wait)
        kind = RoleKind(Home(data, data / "images", environment), around)
        self.provider = TidepoolProvider(lambda _: kind, EngineLog(""))

    @contextmanager
    def _parties(self, _wanted: RoleModel) -> Iterator[Parties]:
        yield Parties(self.world.machine, self.world.sides, self.shown.append)

    def _opened(self, path: Path) -> Journal:
        assert path == self.world.folder / "conversions.db"
        return self.world.opened(path.parent)

    def made(self, role: Role = "slurm", **changes: Any) -> dict[str, Any]:
        """The state of a machine that has the role."""
        created = self.create(self.checked(inputs(role=role, **changes)))
        assert created.resource_id == NODE
        return plainly(created.properties)

    def changed(self, state: dict[str, Any], **changes: Any) -> dict[str, Any]:
        """The state after an update to other inputs."""
        wanted = self.checked(inputs(**{"role": state["role"], **changes}))
        return plainly(self.update(NODE, state, wanted).properties)

    def seen(self, state: dict[str, Any]) -> dict[str, Any] | None:
        """What a refresh says that the state is; None where it is gone."""
        found = self.read(NODE, state, state)
        return plainly(found.properties) if found.resource_id else None

    @property
    def serves(self) -> list[Role]:
        return [role for role in ROLES if self.world.sides[role].sight() == "serving"]


@pytest.fixture
def provider(tmp_path: Path) -> Provider:
    (tmp_path / "dev").mkdir()
    return Provider(tmp_path)


def told(found: Difference) -> tuple[list[str], list[str]]:
    return found.diffs, found.replaces


def test_a_machine_that_no_image_has_booted_is_made_anew_by_the_next_up(provider: Provider) -> None:
    world = provider.world
    world.machine.disk = "slurm"
    state = provider.made("slurm")
    # As a conversion leaves it whose images did not boot: it says nothing, and neither side knows it.
    world.machine.up = None
    world.machine.running.clear()
    world.machine.credentials.clear()
    world.sides["slurm"].known_since = None
    assert provider.changed({**state, "state": "none"})["role"] == "slurm"
    assert provider.serves == ["slurm"]
    assert world.calls.count("machine.image slurm") == 1


def test_a_machine_of_one_image_that_does_not_answer_is_told_of_and_stays(provider: Provider) -> None:
    state = provider.made("slurm")
    provider.world.machine.up = None
    with pytest.raises(Refusal, match="it boots"):
        provider.changed({**state, "state": "none"})


def test_inputs_that_cannot_be_are_told_with_what_is_allowed(provider: Provider) -> None:
    assert provider.failures(inputs()) == {}
    wrong = inputs(role="both", atDeadline="never", deadlineS=0, colour="red")
    assert {key: reason.partition(";")[0] for key, reason in provider.failures(wrong).items()} == {
        "role": "it is 'both'",
        "atDeadline": "it is 'never'",
        "deadlineS": "it is 0",
        "colour": "there is no such input",
    }
    assert provider.failures(inputs(boots={"slurm": "x"})) == {
        "boots": "there is none for kubernetes; name a Boot for each role"
    }
    assert provider.failures(inputs(controller={"kind": "pigeon"}))["controller"].endswith(
        "known kinds are: local, ssh, host"
    )


@pytest.mark.parametrize(
    ("changes", "diffs", "replaces"),
    [
        ({"role": "kubernetes"}, ["role"], []),
        ({"deadlineS": 5, "atDeadline": "force"}, ["atDeadline", "deadlineS"], []),
        ({"boots": {"slurm": "a", "kubernetes": "b"}}, ["boots"], []),
        ({"podSubnet": "10.240.9.0/24"}, ["podSubnet"], []),
        ({"labels": {"disk": "fast"}}, ["labels"], []),
        ({"machine": {"kind": "local", "stack": "dev", "machine": "x"}}, ["machine"], ["machine"]),
        ({"node": "shared-2"}, ["node"], ["node"]),
        ({"slots": "other"}, ["slots"], ["slots"]),
        ({"access": "other"}, ["access"], ["access"]),
        ({}, [], []),
    ],
)
def test_a_role_is_never_replaced_for_another_role(
    provider: Provider, changes: dict[str, Any], diffs: list[str], replaces: list[str]
) -> None:
    state = provider.made()
    assert told(provider.diff(state, provider.checked(inputs(**changes)))) == (diffs, replaces)


def test_other_addresses_of_pods_replace_it_where_there_may_be_pods(provider: Provider) -> None:
    state = provider.made("kubernetes")
    wanted = provider.checked(inputs(role="kubernetes", podSubnet="10.240.9.0/24"))
    assert told(provider.diff(state, wanted)) == (["podSubnet"], ["podSubnet"])


@pytest.mark.parametrize("role", ROLES)
def test_a_new_machine_takes_its_role(provider: Provider, role: Role) -> None:
    state = provider.made(role)
    assert (state["role"], state["state"]) == (role, "serving")
    assert provider.serves == [role]
    assert provider.seen(state) == state
    # One that was cut off before anybody wrote it down is made again.
    calls = len(provider.world.calls)
    assert provider.made(role) == state
    assert not any("take" in call for call in provider.world.calls[calls:])


def test_people_who_look_at_kubernetes_are_told_what_it_came_to_and_when_it_left(provider: Provider) -> None:
    state = provider.changed(provider.made("kubernetes"), role="slurm")
    assert [(each.role, each.node) for each in provider.shown if each is not None] == [
        ("Kubernetes", "Ready"),
        ("Slurm", "Absent"),
    ]
    assert provider.shown[-1] is not None
    assert provider.shown[-1].reason == "up: the stack's program says so"
    provider.delete(NODE, state)
    assert provider.shown[-1] is None


def test_a_preview_moves_nothing(provider: Provider) -> None:
    created = provider.create(provider.checked(inputs()), preview=True)
    assert plainly(created.properties)["role"] == "slurm"
    state = provider.made()
    before = list(provider.world.calls)
    previewed = provider.update(NODE, state, provider.checked(inputs(role="kubernetes")), preview=True)
    assert plainly(previewed.properties)["role"] == "kubernetes"
    assert provider.world.calls == before


@pytest.mark.parametrize("role", ROLES)
def test_another_role_is_a_conversion_that_waits_for_what_runs(provider: Provider, role: Role) -> None:
    state = provider.made(role)
    provider.world.sides[role].begin("4711", seconds=30)
    after = provider.changed(state, role=other(role))
    assert (after["role"], provider.serves) == (other(role), [other(role)])
    assert provider.world.lost == []
    (_, conversion) = reversed(provider.world.journal.conversions())
    assert (conversion.order.by, conversion.order.deadline_s, conversion.phase) == ("up", 60, "done")
    assert provider.changed(after) == after


def test_one_that_does_not_end_in_time_stays_what_it_was_and_its_state_too(provider: Provider) -> None:
    state = provider.made()
    provider.world.sides["slurm"].begin("4711")
    with pytest.raises(
        Refusal, match=r"shared-1 was not given to Kubernetes: its work did not end .*job 4711 of anna"
    ):
        provider.changed(state, role="kubernetes", deadlineS=5)
    assert provider.serves == ["slurm"]
    assert provider.seen(state) == state
    # The next `up` of what is there moves nothing.
    assert told(provider.diff(state, provider.checked(inputs()))) == ([], [])


def test_by_force_what_runs_there_goes_at_the_deadline(provider: Provider) -> None:
    state = provider.made()
    provider.world.sides["slurm"].begin("4711")
    after = provider.changed(state, role="kubernetes", deadlineS=5, atDeadline="force")
    assert (after["role"], provider.serves, provider.world.lost) == ("kubernetes", ["kubernetes"], [])


def test_another_deadline_moves_nothing(provider: Provider) -> None:
    state = provider.made()
    before = len(provider.world.journal.conversions())
    after = provider.changed(state, deadlineS=5)
    assert after["deadlineS"] == 5
    assert len(provider.world.journal.conversions()) == before


def test_a_cancelled_operation_ends_soon_and_the_next_goes_on(provider: Provider) -> None:
    state = provider.made()
    provider.world.sides["slurm"].begin("4711", seconds=50)

    def cancel(call: str) -> None:
        if call == "wait":
            provider.provider.cancel()

    provider.world.at = cancel
    with pytest.raises(
        Refusal, match="shared-1: the operation was cancelled; a conversion that was begun goes on with"
    ):
        provider.changed(state, role="kubernetes")
    under_way = provider.world.journal.under_way(NODE)
    assert under_way is not None
    assert (under_way.phase, under_way.driver) == ("emptying", "")
    provider.world.at = lambda _: None
    provider.provider.begin()
    assert provider.changed(state, role="kubernetes")["role"] == "kubernetes"


def test_what_somebody_ordered_is_carried_out_by_whoever_comes(provider: Provider) -> None:
    """A person's `up` after `tidepool convert` was killed: its program knows of no other role."""
    state = provider.made()
    provider.world.order("kubernetes", is_forced=True)
    provider.world.sides["slurm"].begin("4711")
    wanted = provider.checked(inputs())
    assert told(provider.diff(state, wanted)) == (["role"], [])
    after = plainly(provider.update(NODE, state, wanted).properties)
    assert (after["role"], provider.serves) == ("kubernetes", ["kubernetes"])
    # What the stack exports of it is what the next program asks for.
    assert told(provider.diff(after, provider.checked(inputs(role="kubernetes")))) == ([], [])


def test_an_order_that_was_cancelled_leaves_it_as_it_was(provider: Provider) -> None:
    state = provider.made()
    provider.world.order("kubernetes")
    provider.world.sides["slurm"].begin("4711")

    def cancel(call: str) -> None:
        if call == "wait":
            provider.world.journal.cancel(NODE, "anna")

    provider.world.at = cancel
    # Who only goes on with it, and wants what is there, has nothing to complain of.
    assert provider.changed(state)["role"] == "slurm"
    assert provider.serves == ["slurm"]
    provider.world.at = lambda _: None
    provider.world.order("kubernetes")
    provider.world.at = cancel
    with pytest.raises(Refusal, match="was not given to Kubernetes: cancelled by anna"):
        provider.changed(state, role="kubernetes")


def test_an_order_that_was_cancelled_before_anybody_began_is_not_made_anew_by_who_was_on_the_way(
    provider: Provider,
) -> None:
    state = provider.made()
    provider.world.order("kubernetes")
    provider.world.journal.cancel(NODE, "anna")
    with pytest.raises(Refusal, match="was not given to Kubernetes: cancelled by anna"):
        provider.changed(state, role="kubernetes")
    assert provider.serves == ["slurm"]
    provider.world.wait(20)
    assert provider.changed(state, role="kubernetes")["role"] == "kubernetes"


def test_one_that_can_be_made_nothing_is_told_and_mended_by_the_next(provider: Provider) -> None:
    state = provider.made()
    for side in provider.world.sides.values():
        side.joins_after_s = None
    with pytest.raises(InitializationFailed, match="shared-1 serves neither Slurm nor Kubernetes") as caught:
        provider.changed(state, role="kubernetes")
    broken = plainly(caught.value.properties)
    assert (broken["role"], broken["state"]) == ("slurm", "none")
    for side in provider.world.sides.values():
        side.joins_after_s = 0.3
    assert told(provider.diff(broken, provider.checked(inputs()))) == (["state"], [])
    assert provider.changed(broken)["state"] == "serving"
    assert provider.serves == ["slurm"]


def test_a_new_one_that_never_joins_is_known_to_be_there(provider: Provider) -> None:
    provider.world.sides["kubernetes"].joins_after_s = None
    with pytest.raises(InitializationFailed, match="did not join Kubernetes") as caught:
        provider.made("kubernetes")
    assert plainly(caught.value.properties)["state"] == "none"


@pytest.mark.parametrize("role", ROLES)
def test_a_machine_that_boots_again_takes_up_its_role_by_itself(provider: Provider, role: Role) -> None:
    state = provider.made(role)
    provider.world.machine.running.clear()
    assert provider.seen(state) == {**state, "state": "down"}
    boots = provider.world.now() + timedelta(seconds=4)
    ordered = len(provider.world.journal.conversions())

    def boot(_call: str) -> None:
        if provider.world.time >= boots:
            provider.world.machine.running.add(role)

    provider.world.at = boot
    assert provider.changed({**state, "state": "down"})["state"] == "serving"
    assert len(provider.world.journal.conversions()) == ordered
    # One whose services do not come is given its role again.
    provider.world.at = lambda _: None
    provider.world.machine.running.clear()
    assert provider.changed({**state, "state": "down"})["state"] == "serving"
    assert len(provider.world.journal.conversions()) == ordered + 1


def test_what_changed_outside_is_seen_from_both_sides(provider: Provider) -> None:
    world = provider.world
    state = provider.made()
    world.machine.running.clear()
    assert provider.seen(state) == {**state, "state": "down"}
    assert provider.changed({**state, "state": "down"})["state"] == "serving"
    # Somebody gave it the other role by hand.
    world.machine.lose("slurm")
    world.sides["slurm"].remove_node()
    world.sides["kubernetes"].prepare()
    world.machine.take("kubernetes")
    world.wait(1)
    assert provider.seen(state) == {**state, "role": "kubernetes"}
    assert provider.changed({**state, "role": "kubernetes"}, role="slurm")["role"] == "slurm"
    world.machine.running.add("kubernetes")
    assert provider.seen(state) == {**state, "state": "in two roles"}
    assert provider.changed({**state, "state": "in two roles"})["state"] == "serving"
    assert world.machine.roles() == {"slurm"}


def test_a_hold_that_outlived_its_conversion_ends_and_one_of_a_person_stays(provider: Provider) -> None:
    state = provider.made()
    side = provider.world.sides["slurm"]
    side.hold_of = "us"
    assert provider.seen(state) == {**state, "state": "held"}
    assert provider.changed({**state, "state": "held"}) == state
    assert provider.serves == ["slurm"]
    side.hold_of = "root (disk)"
    assert provider.seen(state) == state


def test_what_cannot_be_seen_is_as_it_was_and_what_does_not_run_is_down(provider: Provider) -> None:
    state = provider.made()
    provider.world.sides["slurm"].faults["see"] = "slurmctld does not answer"
    assert provider.seen(state) == state
    provider.runs = False
    assert provider.seen(state) == {**state, "state": "down"}


def test_one_that_nobody_knows_of_is_gone_and_made_anew(provider: Provider) -> None:
    state = provider.made()
    provider.world.machine.lose("slurm")
    provider.world.sides["slurm"].remove_node()
    assert provider.seen(state) is None
    assert provider.made()["state"] == "serving"


@pytest.mark.parametrize("role", ROLES)
def test_deleting_it_leaves_either_role(provider: Provider, role: Role) -> None:
    provider.delete(NODE, provider.made(role))
    assert provider.world.machine.roles() == frozenset()
    assert [provider.world.sides[each].sight() for each in ROLES] == ["absent", "absent"]
    assert not any(provider.world.machine.left_behind(each) for each in ROLES)
    # Again, as after one that was cut off.
    provider.delete(NODE, inputs(role=role, state="serving"))


def test_deleting_it_is_refused_while_it_has_work_each_named(provider: Provider) -> None:
    state = provider.made()
    for name in ("4711", "4712"):
        provider.world.sides["slurm"].begin(name)
    with pytest.raises(Refusal) as caught:
        provider.delete(NODE, state)
    assert str(caught.value) == (
        "machine shared-1 cannot leave pool shared: job 4711 of anna, job 4712 of anna would be lost; wait for the end, "
        "or end them first"
    )
    assert provider.serves == ["slurm"], "it takes jobs again"
    # One that ends by itself in a moment is waited for.
    provider.world.sides["slurm"].items.clear()
    provider.world.sides["slurm"].begin("4713", seconds=3)
    provider.delete(NODE, state)
    assert provider.world.lost == []


@pytest.mark.parametrize(
    ("well", "why"),
    [
        (["shared-1", "ctl"], "have another take over first, by `scontrol takeover`"),
        (["shared-1"], "no other"),
    ],
)
def test_deleting_one_that_is_in_charge_of_slurm_is_refused(
    provider: Provider, well: list[str], why: str
) -> None:
    state = provider.made()
    side = provider.world.sides["slurm"]
    side.judges = lambda: controllers_verdict(NODE, well, NODE)
    with pytest.raises(Refusal, match=why):
        provider.delete(NODE, state)
    assert provider.serves == ["slurm"]
    side.judges = lambda: controllers_verdict(NODE, (NODE, "ctl"), "ctl")
    provider.delete(NODE, state)
    assert provider.serves == []


def test_deleting_that_is_cancelled_lets_new_work_come_again(provider: Provider) -> None:
    state = provider.made()
    provider.world.sides["slurm"].begin("4711", seconds=5)
    provider.world.at = lambda call: provider.provider.cancel() if call == "wait" else None
    with pytest.raises(Refusal, match="did not leave pool shared: the operation was cancelled"):
        provider.delete(NODE, state)
    assert provider.serves == ["slurm"]


def test_deleting_one_whose_machine_is_gone_tells_the_owners_of_what_ran(provider: Provider) -> None:
    state = provider.made()
    item = provider.world.sides["slurm"].begin("4711")
    provider.runs = False
    provider.world.machine.running.clear()
    provider.delete(NODE, state)
    assert item.told
    assert provider.world.sides["slurm"].sight() == "absent"


def test_deleting_needs_the_side_that_it_serves_and_no_other(provider: Provider) -> None:
    state = provider.made()
    provider.world.sides["slurm"].faults["*"] = "slurmctld does not answer"
    with pytest.raises(Refusal, match="cannot leave pool shared: slurmctld does not answer"):
        provider.delete(NODE, state)
    provider.world.sides["slurm"].faults.clear()
    provider.world.sides["kubernetes"].faults["*"] = "the API does not answer"
    provider.delete(NODE, state)
    assert provider.world.machine.roles() == frozenset()


def test_deleting_what_is_gone_with_all_around_it_succeeds(provider: Provider) -> None:
    """The data folder was removed by hand: no machine, no controller, no way to Kubernetes."""
    state = provider.made()
    provider.runs = False
    for side in provider.world.sides.values():
        side.faults["*"] = "it is gone"
    provider.delete(NODE, state)


@pytest.fixture
def regardless(tmp_path: Path) -> Provider:
    """One of `tidepool down --force`."""
    (tmp_path / "forced" / "dev").mkdir(parents=True)
    return Provider(tmp_path / "forced", REGARDLESS)


def test_regardless_it_goes_with_its_work_whose_owners_are_told(regardless: Provider) -> None:
    state = regardless.made()
    item = regardless.world.sides["slurm"].begin("4711")
    regardless.world.sides["slurm"].judges = lambda: controllers_verdict(NODE, (NODE,), NODE)
    regardless.delete(NODE, state)
    assert item.told
    assert regardless.serves == []
    assert regardless.world.machine.roles() == frozenset()


def test_regardless_it_goes_without_those_that_do_not_answer(regardless: Provider) -> None:
    state = regardless.made()
    for side in regardless.world.sides.values():
        side.faults["*"] = "it does not answer"
    regardless.delete(NODE, state)
    assert regardless.world.machine.roles() == frozenset()


def test_one_that_does_not_answer_leaves_regardless_alone_and_owners_are_told(
    provider: Provider, regardless: Provider
) -> None:
    for each, goes in ((provider, False), (regardless, True)):
        state = each.made()
        item = each.world.sides["slurm"].begin("4711")
        each.world.machine.faults["roles"] = "no route to host"
        if goes:
            each.delete(NODE, state)
        else:
            with pytest.raises(Refusal, match="no route to host"):
                each.delete(NODE, state)
        assert (bool(item.told), each.serves) == (goes, [] if goes else ["slurm"])


def test_deleting_ends_a_conversion_that_nobody_drives_and_waits_for_no_other(provider: Provider) -> None:
    state = provider.made()
    world = provider.world
    order = world.order("kubernetes")
    world.journal.take_over(order.id, "somebody", world.now(), 60)
    with pytest.raises(
        Refusal, match="its conversion to Kubernetes is under way; wait for its end, or `tidepool conv"
    ):
        provider.delete(NODE, state)
    world.dead.add("somebody")
    provider.delete(NODE, state)
    assert world.journal.under_way(NODE) is None


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_killed_at_any_call_the_next_up_goes_on(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The provider is killed at a call of its own choosing; what Pulumi then knows is what it knew before."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "dev").mkdir()
    provider = Provider(folder)
    world = provider.world
    role: Role = data.draw(st.sampled_from(ROLES))
    state = provider.made(role)
    world.sides[role].begin("4711", seconds=data.draw(st.sampled_from([0, 3, 600])))
    kills = data.draw(st.lists(st.integers(1, 60), max_size=4))
    wanted: Role = other(role)
    for after in kills:
        left = [after]

        def kill(call: str, left: list[int] = left) -> None:
            world.check()
            left[0] -= 1
            if not left[0]:
                world.killed = True

        world.at = kill
        try:
            state = provider.changed(state, role=wanted)
        except Killed:
            pass
        except Refusal:
            wanted = state["role"]  # what the stack exports
        world.killed = False
        world.at = lambda _: world.check()
        under_way = world.journal.under_way(NODE)
        if under_way is not None:
            world.dead.add(under_way.driver)
        # A person's plain `up` knows of no wish.
        wanted = data.draw(st.sampled_from([wanted, state["role"]]))
        if (seen := provider.seen(state)) is not None:
            state = seen
    world.wait(700)
    state = provider.changed(state, role=wanted)
    assert provider.serves == [state["role"]]
    assert world.machine.roles() == {state["role"]}
    assert world.journal.under_way(NODE) is None
    assert world.lost == []
    assert provider.seen(state) == state
