"""The newest look: kept in place of the one before, whole where it is small."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from tests.cluster.specs import spec_mapping
from tidepool.clients.slurm import Node, NodeState
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decision import AccountBudget, Cost, Decision, NodeView, Phase, Waiting
from tidepool.scaling.journal import open_journal
from tidepool.scaling.memory import Memory, Spent
from tidepool.scaling.ports import Fenced, Journal, Trouble
from tidepool.scaling.usage import AccountUsage, Use

AT = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)
WORLD = ClusterState(
    AT, ClusterSpec.model_validate(spec_mapping()), (Node("cpu-1", NodeState.parse("IDLE")),), jobs=()
)
DECISION = Decision(
    AT,
    actions=(),
    waiting={7: Waiting(7, "limit", "no more than 2 nodes")},
    desired={"cpu": HostSet("cpu-1")},
    nodes={"cpu-1": NodeView(Phase.IDLE, "it waits for jobs")},
    memory=Memory(idle_since={"cpu-1": AT}, spent=Spent("2026-11", 1.0, AT)),
    cost=Cost(1, 2, 3),
)


def later(decision: Decision, seconds: int) -> Decision:
    at = decision.at + timedelta(seconds=seconds)
    spent = Spent("2026-11", 1.5, at)
    return replace(decision, at=at, cost=Cost(1, 2.5, 3), memory=replace(decision.memory, spent=spent))


def counted(decision: Decision, seconds: int) -> tuple[ClusterState, Decision]:
    """A later look, where an account that has a budget has used more of it."""
    decision = later(decision, seconds)
    at = decision.at
    use = {"physics": {"cpu": Use(seconds, seconds, seconds)}}
    usage = AccountUsage("2026-11", at, use, use, at, at, parents={"optics": "physics"})
    budget = AccountBudget(seconds, 100, 0, None, at, datetime(2026, 12, 1, tzinfo=UTC))
    memory = replace(decision.memory, usage=usage)
    state = replace(WORLD, at=at, usage=usage)
    return state, replace(decision, memory=memory, budgets={"physics": budget})


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return open_journal(tmp_path / "scaler", {}, power_safe=False)


def test_there_is_none_at_first(journal: Journal) -> None:
    assert journal.last_look() is None


def test_the_newest_is_read_as_it_was_written(journal: Journal) -> None:
    lease = journal.acquire("one", AT, 10)
    assert lease is not None
    for seconds in (0, 1, 2):
        decision = later(DECISION, seconds)
        state = replace(WORLD, at=decision.at)
        journal.looked(lease, state, decision)
        look = journal.last_look()
        assert look is not None
        assert (look.epoch, look.spec, look.state, look.decision) == (
            lease.epoch,
            WORLD.spec,
            state,
            decision,
        )
    assert journal.kept().desired is None


def test_where_only_times_and_sums_changed_only_those_are_written(journal: Journal, tmp_path: Path) -> None:
    lease = journal.acquire("one", AT, 10)
    assert lease is not None
    # So large, and so hard to compress, that what is written shows in the log's size.
    reason = Random(1).randbytes
    nodes = {f"cpu-{n}": NodeView(Phase.IDLE, reason(32).hex()) for n in range(2_000)}
    journal.looked(lease, *counted(replace(DECISION, nodes=nodes), 0))
    log = tmp_path / "scaler" / "journal.sqlite-wal"
    before = log.stat().st_size
    journal.looked(lease, *counted(replace(DECISION, nodes=nodes), 1))
    again = log.stat().st_size
    nodes = {**nodes, "cpu-1": NodeView(Phase.BUSY, "it has jobs")}
    state, decision = counted(replace(DECISION, nodes=nodes), 2)
    journal.looked(lease, state, decision)
    assert again - before < log.stat().st_size - again
    look = journal.last_look()
    assert look is not None
    assert look.decision.budgets == decision.budgets
    assert look.decision.memory.usage is not None
    assert look.decision.memory.usage.parents == {"optics": "physics"}
    assert look.decision.nodes["cpu-1"].phase is Phase.BUSY


def test_of_a_large_world_only_the_spec_is_kept(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "scaler", {}, power_safe=False, largest_state_bytes=100)
    lease = journal.acquire("one", AT, 10)
    assert lease is not None
    journal.looked(lease, WORLD, DECISION)
    look = journal.last_look()
    assert look is not None
    assert (look.state, look.spec, look.decision) == (None, WORLD.spec, DECISION)


def test_it_is_the_leaders_to_write(journal: Journal) -> None:
    first = journal.acquire("one", AT, 10)
    assert first is not None
    assert journal.acquire("two", AT + timedelta(seconds=11), 10) is not None
    with pytest.raises(Fenced):
        journal.looked(first, WORLD, DECISION)
    assert journal.last_look() is None


def test_a_lease_that_was_let_go_of_says_so(journal: Journal) -> None:
    lease = journal.acquire("one", AT, 10)
    assert lease is not None
    assert journal.leader() == lease
    journal.release(lease)
    assert journal.leader() == replace(lease, is_held=False)


def test_what_the_leader_complains_of_is_kept_until_it_is_over(journal: Journal) -> None:
    lease = journal.acquire("one", AT, 10)
    assert lease is not None
    assert journal.trouble() is None
    trouble = Trouble(AT, ("slurmctld does not answer",))
    journal.troubled(lease, trouble)
    assert journal.trouble() == trouble
    journal.troubled(lease, None)
    assert journal.trouble() is None
