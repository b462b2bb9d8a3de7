"""What is asked of Slurm, as arguments."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidepool.clients.slurm import JobRequest, Slots
from tidepool.clients.slurm.request import node_names


def test_slots_are_declared_as_future_nodes() -> None:
    slots = Slots(
        "std-[1-4]", "10.0.0.[1-4]", cpus=2, memory_mib=4000, features=("std", "avx2"), gres="gpu:a100:2"
    )
    assert slots.arguments() == [
        "NodeName=std-[1-4]", "NodeAddr=10.0.0.[1-4]", "State=FUTURE", "CPUs=2", "RealMemory=4000",
        "Feature=std,avx2", "Gres=gpu:a100:2", "Weight=1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "slots",
    [
        Slots("n[1-3]", "10.0.0.[1-2]", 1, 1),
        Slots("n[1-3]", "", 1, 1),
    ],
)
def test_lists_of_different_lengths_never_reach_slurmctld_for_they_end_it(slots: Slots) -> None:
    with pytest.raises(ValueError, match="are 3 nodes"):
        slots.arguments()


def test_a_job_is_asked_for_in_sbatchs_words() -> None:
    request = JobRequest(
        "#!/bin/sh\n", name="a b", nodes="2-4", memory_mib=100, array="0-9%2", time_limit_s=90, exclusive=True,
        begin=datetime(2026, 1, 1, tzinfo=UTC), requeue=False, more=("--nice=5",),
    )  # fmt: skip
    assert request.arguments() == [
        "--job-name=a b", "--nodes=2-4", "--mem=100M", "--array=0-9%2", "--begin=uts1767225600", "--time=1:30",
        "--exclusive", "--no-requeue", "--nice=5",
    ]  # fmt: skip


@pytest.mark.parametrize("names", ["", ",", "ALL", "all", "n1,All", "n1 n2", "n[1-"])
def test_no_nodes_and_all_nodes_are_not_asked_for(names: str) -> None:
    with pytest.raises(ValueError, match=r"name|hostlist"):
        node_names(names)


def test_control_characters_are_not_asked_for() -> None:
    with pytest.raises(ValueError, match="control characters"):
        JobRequest("#!/bin/sh\n", name="a\nb").arguments()


def test_a_time_without_a_zone_is_not_guessed() -> None:
    with pytest.raises(ValueError, match="time zone"):
        JobRequest("#!/bin/sh\n", begin=datetime(2026, 1, 1)).arguments()  # noqa: DTZ001


def test_slots_without_those_that_are_there_keep_their_addresses() -> None:
    slots = Slots("cpu-[1-4]", "10.0.0.[1-4]", 2, 500)
    assert slots.without({"other-1"}) is slots
    assert slots.without({"cpu-2", "cpu-3"}) == Slots("cpu-1,cpu-4", "10.0.0.1,10.0.0.4", 2, 500)
    assert slots.without({f"cpu-{n}" for n in range(1, 5)}) is None
