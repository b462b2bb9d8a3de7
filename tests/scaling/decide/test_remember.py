"""What an `up` came to, and what is remembered of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.scaling.decide.cluster_states import AT, cluster_state, desired, job, machine, seconds
from tidepool.scaling.cluster_state import Recorded
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.remember import LONGEST, fleet_backoff, node_backoff, remember
from tidepool.scaling.decision import Launch, Phase, Remove
from tidepool.scaling.memory import Backoff, Cause, Memory
from tidepool.scaling.memory import Launch as Launched
from tidepool.scaling.ports import Failure, UpOutcome

LAUNCHED = Memory(launches={f"cpu-{n}": Launched(AT - seconds(3), AT + seconds(57)) for n in (1, 2)})


def failed(cause: Cause, *names: str) -> UpOutcome:
    return UpOutcome(failed={name: Failure(cause, f"{name}: no luck") for name in names})


@pytest.mark.parametrize(
    ("cause", "first_s", "most"),
    [
        ("capacity", 60, timedelta(hours=1)),
        ("transient", 5, timedelta(minutes=5)),
        ("permanent", 600, timedelta(hours=6)),
        ("boot", 300, timedelta(hours=6)),
    ],
)
def test_each_failure_in_a_row_is_left_alone_for_twice_as_long(
    cause: Cause, first_s: int, most: timedelta
) -> None:
    backoff: Backoff | None = None
    for failures in range(1, 20):
        backoff = node_backoff(backoff, cause, "no luck", AT)
        assert backoff.failures == failures
        assert backoff.until - AT == min(most, timedelta(seconds=first_s * 2 ** (failures - 1)))
    assert most <= LONGEST


def test_a_fleet_forgives_two_nodes_that_do_not_come_up() -> None:
    backoff: Backoff | None = None
    pauses = []
    for _ in range(5):
        backoff = fleet_backoff(backoff, "boot", "no luck", AT)
        pauses.append((backoff.until - AT).total_seconds())
    assert pauses == [0, 0, 30, 60, 120]


def test_another_cause_counts_anew() -> None:
    backoff = fleet_backoff(Backoff("transient", 7, AT, ""), "capacity", "sold out", AT)
    assert (backoff.failures, backoff.until) == (1, AT + seconds(60))


def test_a_stock_out_closes_the_fleet_and_its_nodes_leave_the_wish() -> None:
    memory = remember(LAUNCHED, failed("capacity", "cpu-1", "cpu-2"), AT)
    assert memory.launches == {}
    assert memory.fleet_backoffs["cpu"].failures == 1
    seen = cluster_state(jobs=(job(1), job(2)), desired=desired("cpu-1", "cpu-2"), recorded={})
    look = decide(seen, memory)
    assert look.actions == ()
    assert not look.desired["cpu"]
    assert {told.standing for told in look.waiting.values()} == {"setback"}
    # When it is over, the same names are tried again.
    after = decide(replace(seen, at=AT + seconds(60), desired=look.desired), look.memory)
    assert [type(each) for each in after.actions] == [Launch]


def test_what_is_there_of_a_node_that_could_not_be_made_is_taken_away() -> None:
    memory = remember(LAUNCHED, failed("boot", "cpu-1"), AT)
    seen = cluster_state(
        desired=desired("cpu-1"), machines=(machine("cpu-1"),), recorded={"cpu-1": Recorded(machine=True)}
    )
    look = decide(seen, memory)
    gone = decide(replace(seen, at=AT + seconds(2), desired=look.desired), look.memory)
    assert [type(each) for each in gone.actions] == [Remove]
    assert "no luck" in gone.actions[0].reason


def test_success_ends_set_backs() -> None:
    backoff = Backoff("capacity", 3, AT, "sold out")
    before = replace(LAUNCHED, fleet_backoffs={"cpu": backoff}, node_backoffs={"cpu-1": backoff})
    memory = remember(before, UpOutcome(made=frozenset({"cpu-1"})), AT)
    assert memory.fleet_backoffs == {}
    assert memory.node_backoffs == {}


def test_half_of_a_request_granted_begins_the_count_anew() -> None:
    before = replace(LAUNCHED, fleet_backoffs={"cpu": Backoff("capacity", 3, AT, "sold out")})
    half = UpOutcome(made=frozenset({"cpu-1"}), failed={"cpu-2": Failure("capacity", "sold out")})
    assert remember(before, half, AT).fleet_backoffs["cpu"].failures == 1


def test_each_fleet_backs_off_alone() -> None:
    memory = remember(LAUNCHED, failed("transient", "cpu-1"), AT)
    assert memory.fleet_backoffs.keys() == {"cpu"}


def test_what_could_not_be_taken_away_is_tried_again_and_its_fleet_goes_on() -> None:
    memory = remember(Memory(awaited={"cpu-1": AT}), failed("permanent", "cpu-1"), AT)
    assert memory.fleet_backoffs == {}
    assert memory.awaited["cpu-1"] == AT + timedelta(minutes=10)


def test_the_gravest_failure_is_told_of_the_fleet() -> None:
    outcome = UpOutcome(
        failed={"cpu-1": Failure("transient", "time-out"), "cpu-2": Failure("permanent", "no such image")}
    )
    assert remember(LAUNCHED, outcome, AT).fleet_backoffs["cpu"].text == "no such image"


@pytest.mark.parametrize("came_to", ["made", "coming"])
def test_a_node_whose_machine_took_longer_to_answer_than_nodes_have_time_is_not_replaced_for_that(
    came_to: str,
) -> None:
    """Emulated, it takes minutes, and what an `up` waits for is a machine, not yet its node."""
    made = AT + seconds(180)
    memory = remember(LAUNCHED, UpOutcome(**{came_to: frozenset({"cpu-1"})}), made)  # type: ignore[arg-type]
    seen = replace(
        cluster_state(
            desired=desired("cpu-1"),
            machines=(machine("cpu-1"),),
            recorded={"cpu-1": Recorded(machine=True, membership=True)},
        ),
        at=made,
    )
    assert decide(seen, memory).nodes["cpu-1"].phase is Phase.LAUNCHING
    assert memory.launches["cpu-1"].deadline == made + seconds(60)
    late = decide(replace(seen, at=made + seconds(60)), memory)
    assert late.nodes["cpu-1"].phase is Phase.ILL
