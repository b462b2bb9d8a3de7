"""Who is in charge of Slurm, and who of Kubernetes' control plane is well, as `ControlPlanes` finds it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.clients.kubernetes.real import RealKubernetes, shared
from tests.clients.kubernetes.world import FakeWorld as FakeKubernetesWorld
from tests.clients.kubernetes.world import RealWorld, World
from tests.clients.slurm.world import FakeWorld, up
from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.clients.kubernetes.objects import Node
from tidepool.clients.slurm import Controller, ControllerDown
from tidepool.cluster.frozen import FrozenDict
from tidepool.conversion.machine import MEMBER_LABEL, ControlPlanes
from tidepool.conversion.ports import OUR_HOLD, ConversionError, Refused, Standing, verdict
from tidepool.simulation.slurm.fake import FakeSlurm

NOW = datetime(2026, 11, 22, tzinfo=UTC)
PRIMARY = "fake"  # what the fake's is called
REASON = f"{OUR_HOLD} kubernetes (a test)"


class Pinged(FakeSlurm):
    """Counts, and may answer for others."""

    pings = 0
    answer: tuple[Controller, ...] = ()

    def ping(self) -> tuple[Controller, ...]:
        self.pings += 1
        return self.answer or super().ping()


def planes(slurm: FakeSlurm, node: str, now: Callable[[], datetime] = lambda: NOW) -> ControlPlanes:
    return ControlPlanes(node, slurm, None, FrozenDict, now)


def test_an_ordinary_machine_costs_one_ping() -> None:
    slurm = Pinged()
    control = planes(slurm, "shared-1")
    assert [control.standing("slurm") for _ in range(5)] == [()] * 5
    assert [control.standing("kubernetes") for _ in range(5)] == [()] * 5
    assert slurm.pings == 1


def test_a_primary_goes_when_the_backup_has_taken_over() -> None:
    slurm = Pinged()
    slurm.backup = "standby"
    control = planes(slurm, PRIMARY)
    both = frozenset({PRIMARY, "standby"})
    assert control.standing("slurm") == (Standing("slurm", both, both, PRIMARY),)
    assert verdict(PRIMARY, "slurm", control.standing("slurm")).hands_over == "slurm"
    control.hand_over("slurm")
    assert control.standing("slurm") == (Standing("slurm", both, frozenset({"standby"}), "standby"),)
    assert verdict(PRIMARY, "slurm", control.standing("slurm")).keeps == ""


def test_a_backup_goes_where_the_primary_is_in_charge() -> None:
    slurm = Pinged()
    slurm.backup = "standby"
    assert verdict("standby", "slurm", planes(slurm, "standby").standing("slurm")).keeps == ""


def test_without_a_backup_the_machine_stays_and_is_told_why() -> None:
    slurm = Pinged()
    control = planes(slurm, PRIMARY)
    found = verdict(PRIMARY, "slurm", control.standing("slurm"))
    assert found.hands_over is None
    assert "no other controller answers" in found.keeps
    with pytest.raises(ControllerDown):
        slurm.takeover()
    with pytest.raises(ConversionError, match="no backup answers"):
        control.hand_over("slurm")


def test_a_primary_that_takes_control_back_is_handed_over_once_and_stays() -> None:
    slurm, time = Pinged(), [NOW]
    slurm.backup = "standby"
    control = planes(slurm, PRIMARY, lambda: time[0])
    control.hand_over("slurm")
    slurm.has_taken_over = False  # its supervisor has started it again
    time[0] += timedelta(seconds=5)
    control.hand_over("slurm")
    assert not slurm.has_taken_over, "that would be an outage each time"
    time[0] += timedelta(seconds=60)
    with pytest.raises(Refused, match=r"takes control back.*Restart=on-failure"):
        control.hand_over("slurm")


def test_a_backup_that_leaves_as_well_does_not_count() -> None:
    world = FakeWorld()
    name = up(world, 1)
    world.fake.backup = name
    control = planes(world.fake, PRIMARY)
    assert verdict(PRIMARY, "slurm", control.standing("slurm")).hands_over == "slurm"
    world.fake.drain(name, REASON)
    assert "no other controller answers" in verdict(PRIMARY, "slurm", control.standing("slurm")).keeps
    # That one counts itself: it is told of the other.
    assert verdict(name, "slurm", planes(world.fake, name).standing("slurm")).keeps == ""


def test_which_of_several_backups_is_in_charge_is_unknown() -> None:
    slurm = Pinged()
    slurm.answer = (
        Controller("primary", "a.example", False),
        Controller("backup1", "b.example", True),
        Controller("backup2", "c.example", True),
    )
    with pytest.raises(ConversionError, match="of the backups b, c Slurm does not say which"):
        planes(slurm, "c").standing("slurm")
    # One whose slurmctld does not run is not in charge.
    assert verdict("a", "slurm", planes(slurm, "a").standing("slurm")).keeps == ""


def test_what_cannot_be_asked_is_unknown() -> None:
    slurm = Pinged()
    slurm.fail(ControllerDown("nobody answers", where="here", remedy="wait"))
    with pytest.raises(ConversionError, match="nobody answers"):
        planes(slurm, PRIMARY).standing("slurm")


@pytest.fixture(scope="session")
def real() -> RealKubernetes:
    return shared()


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "fake":
        yield FakeKubernetesWorld()
        return
    found = RealWorld(request.getfixturevalue("real"))
    yield found
    found.clear()


MEMBERS = ("shared-1", "shared-2", "shared-3")


def of_kubernetes(world: World, node: str) -> ControlPlanes:
    seen = world.client.node(node)
    assert seen is not None
    return ControlPlanes(node, Pinged(), world.client, lambda: seen.labels)


def test_a_member_goes_while_the_others_are_a_majority_that_is_well(world: World) -> None:
    world.add_node("shared-4")
    for name in MEMBERS:
        world.add_node(name, {MEMBER_LABEL: ""})
    control = of_kubernetes(world, "shared-1")
    (standing,) = control.standing("kubernetes")
    assert (standing.members, standing.well) == (frozenset(MEMBERS), frozenset(MEMBERS))
    assert verdict("shared-1", "kubernetes", (standing,)).keeps == ""
    # Another one that is about to leave counts no more.
    world.client.cordon("shared-2", REASON)
    keeps = verdict("shared-1", "kubernetes", control.standing("kubernetes")).keeps
    assert "without it 1 of 2 would be well, and 2 must be" in keeps
    world.client.uncordon("shared-2")
    assert verdict("shared-1", "kubernetes", control.standing("kubernetes")).keeps == ""
    with pytest.raises(ConversionError, match="alike"):
        control.hand_over("kubernetes")


def test_the_only_member_stays(world: World) -> None:
    world.add_node("shared-1", {MEMBER_LABEL: ""})
    world.add_node("shared-2")
    keeps = verdict("shared-1", "kubernetes", of_kubernetes(world, "shared-1").standing("kubernetes")).keeps
    assert "is a member of Kubernetes' control plane" in keeps


def test_an_ordinary_node_costs_kubernetes_nothing() -> None:
    class Silent(FakeKubernetes):
        def nodes(self, pool: str | None = None) -> tuple[Node, ...]:
            raise AssertionError("it was asked")

    control = ControlPlanes("shared-1", Pinged(), Silent(), lambda: {"disk": "fast"})
    assert control.standing("kubernetes") == ()
