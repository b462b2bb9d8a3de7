"""Who is in charge of Slurm, and who of Kubernetes' control plane is well, as the sides find it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.clients.kubernetes.real import RealKubernetes, shared
from tests.clients.kubernetes.world import FakeWorld as FakeKubernetesWorld
from tests.clients.kubernetes.world import RealWorld, World
from tests.clients.slurm.world import FakeWorld, up
from tests.simulation.kubernetes.fake import FakeKubernetes
from tests.simulation.slurm import FakeSlurm
from tidepool.clients.kubernetes.contract import KubernetesClient
from tidepool.clients.kubernetes.objects import STACK_LABEL, Node
from tidepool.clients.slurm import Controller, ControllerDown
from tidepool.conversion.kubernetes_side import MEMBER_LABEL, KubernetesSide
from tidepool.conversion.ports import OUR_HOLD, ConversionError, Refused, Verdict
from tidepool.conversion.slurm_side import SlurmSide

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


def side_of(slurm: FakeSlurm, node: str, now: Callable[[], datetime] = lambda: NOW) -> SlurmSide:
    return SlurmSide(slurm, node, now)


def test_an_ordinary_machine_costs_one_ping() -> None:
    slurm = Pinged()
    side = side_of(slurm, "shared-1")
    assert [side.verdict() for _ in range(5)] == [Verdict()] * 5
    assert slurm.pings == 1


def test_a_primary_goes_when_the_backup_has_taken_over() -> None:
    slurm = Pinged()
    slurm.backup = "standby"
    side = side_of(slurm, PRIMARY)
    assert side.verdict() == Verdict(f"slurmctld of standby takes over from {PRIMARY}", hands_over=True)
    side.hand_over()
    assert slurm.has_taken_over
    assert side.verdict() == Verdict()


def test_a_backup_goes_where_the_primary_is_in_charge() -> None:
    slurm = Pinged()
    slurm.backup = "standby"
    assert side_of(slurm, "standby").verdict() == Verdict()


def test_without_a_backup_the_machine_stays_and_is_told_why() -> None:
    slurm = Pinged()
    side = side_of(slurm, PRIMARY)
    found = side.verdict()
    assert not found.hands_over
    assert "no other controller answers" in found.keeps
    with pytest.raises(ControllerDown):
        slurm.takeover()
    with pytest.raises(ConversionError, match="no backup answers"):
        side.hand_over()


def test_a_primary_that_takes_control_back_is_handed_over_once_and_stays() -> None:
    slurm, time = Pinged(), [NOW]
    slurm.backup = "standby"
    side = side_of(slurm, PRIMARY, lambda: time[0])
    side.hand_over()
    slurm.has_taken_over = False  # its supervisor has started it again
    time[0] += timedelta(seconds=5)
    side.hand_over()
    assert not slurm.has_taken_over, "that would be an outage each time"
    time[0] += timedelta(seconds=60)
    with pytest.raises(Refused, match=r"takes control back.*Restart=on-failure"):
        side.hand_over()


def test_a_backup_that_leaves_as_well_does_not_count() -> None:
    world = FakeWorld()
    name = up(world, 1)
    world.fake.backup = name
    side = side_of(world.fake, PRIMARY)
    assert side.verdict().hands_over
    world.fake.drain(name, REASON)
    assert "no other controller answers" in side.verdict().keeps
    # That one counts itself: it is told of the other.
    assert side_of(world.fake, name).verdict() == Verdict()


def test_which_of_several_backups_is_in_charge_is_unknown() -> None:
    slurm = Pinged()
    slurm.answer = (
        Controller("primary", "a.example", False),
        Controller("backup1", "b.example", True),
        Controller("backup2", "c.example", True),
    )
    with pytest.raises(ConversionError, match="of the backups b, c Slurm does not say which"):
        side_of(slurm, "c").verdict()
    # One whose slurmctld does not run is not in charge.
    assert side_of(slurm, "a").verdict() == Verdict()


def test_what_cannot_be_asked_is_unknown() -> None:
    slurm = Pinged()
    slurm.fail(ControllerDown("nobody answers", where="here", remedy="wait"))
    with pytest.raises(ConversionError, match="nobody answers"):
        side_of(slurm, PRIMARY).verdict()


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
OURS = {MEMBER_LABEL: "", STACK_LABEL: "dev"}


def of_kubernetes(client: KubernetesClient, node: str) -> KubernetesSide:
    """The side as it has just seen the machine."""
    side = KubernetesSide(client, node, "shared", "dev", lambda _: None)
    side.see()
    return side


def test_a_member_goes_while_the_others_are_a_majority_that_is_well(world: World) -> None:
    world.add_node("shared-4")
    for name in MEMBERS:
        world.add_node(name, OURS)
    side = of_kubernetes(world.client, "shared-1")
    assert side.verdict() == Verdict()
    # Another one that is about to leave counts no more.
    world.client.cordon("shared-2", REASON)
    keeps = side.verdict().keeps
    assert "without it 1 of 2 would be well, and 2 must be" in keeps
    world.client.uncordon("shared-2")
    assert side.verdict() == Verdict()
    with pytest.raises(ConversionError, match="alike"):
        side.hand_over()


def test_the_only_member_stays(world: World) -> None:
    world.add_node("shared-1", OURS)
    world.add_node("shared-2")
    keeps = of_kubernetes(world.client, "shared-1").verdict().keeps
    assert "is a member of Kubernetes' control plane" in keeps


def test_an_ordinary_node_costs_kubernetes_nothing() -> None:
    class Silent(FakeKubernetes):
        def nodes(self, pool: str | None = None) -> tuple[Node, ...]:
            raise AssertionError("it was asked")

    client = Silent(lambda: NOW)
    client.add_node("shared-1", labels={"disk": "fast", STACK_LABEL: "dev"})
    assert of_kubernetes(client, "shared-1").verdict() == Verdict()
