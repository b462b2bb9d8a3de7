"""What the journal promises, in a file and in PostgreSQL."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.scaling.journal.conftest import JournalLocation
from tests.scaling.journal.values import (
    DELETE_ORPHAN,
    DRAIN,
    LAUNCH,
    NOW,
    TEXTS,
    a_cluster_state,
    a_decision,
    later,
)
from tidepool.cluster.hostlist import HostSet
from tidepool.infrastructures.boot_times import LaunchPhase
from tidepool.scaling.decision import Action, Drain, Phase, Waiting
from tidepool.scaling.journal import database, postgres, sqlite
from tidepool.scaling.journal.journal import SqlJournal
from tidepool.scaling.memory import Launch, Memory
from tidepool.scaling.ports import Fenced, JobRecord, JournalError, Kept, LaunchRecord, Lease, Pause, Sample

LASTING_S = 10.0


def leads(journal: SqlJournal, holder: str = "a", now: datetime = NOW) -> Lease:
    lease = journal.acquire(holder, now, LASTING_S)
    assert lease is not None
    return lease


# The lease


def test_at_first_nobody_has_it(journal: SqlJournal) -> None:
    assert journal.leader() is None
    assert leads(journal) == Lease("a", 1, later(LASTING_S)) == journal.leader()


def test_who_has_it_gets_it_again_in_the_same_epoch_and_longer(journal: SqlJournal) -> None:
    leads(journal)
    assert leads(journal, now=later(9)) == Lease("a", 1, later(19)) == journal.leader()


def test_another_gets_it_when_it_has_run_out_in_the_next_epoch(location: JournalLocation) -> None:
    one, other = location.open(), location.open()
    leads(one)
    assert other.acquire("b", later(9.9), LASTING_S) is None
    assert one.leader() == Lease("a", 1, later(LASTING_S))
    assert other.acquire("b", later(10), LASTING_S) == Lease("b", 2, later(20)) == one.leader()
    assert one.acquire("a", later(11), LASTING_S) is None


def test_one_whose_lease_ran_out_begins_another_epoch(journal: SqlJournal) -> None:
    old = leads(journal)
    new = leads(journal, now=later(11))
    assert new.epoch == 2
    with pytest.raises(Fenced):
        journal.write_kept(old, Kept())


def test_what_was_let_go_of_is_free_at_once(location: JournalLocation) -> None:
    one, other = location.open(), location.open()
    lease = leads(one)
    one.release(lease)
    with pytest.raises(Fenced, match="nobody has it"):
        one.write_kept(lease, Kept())
    assert leads(other, "b").epoch == 2
    one.release(lease)  # of somebody else's by now
    assert other.acquire("c", NOW, LASTING_S) is None


def test_a_clock_that_went_back_keeps_nobody_out_for_longer_than_a_lease_lasts(
    location: JournalLocation,
) -> None:
    dead, other = location.open(), location.open()
    leads(dead, now=later(86_400))
    assert other.acquire("b", NOW, LASTING_S) is None
    assert other.acquire("b", later(9.9), LASTING_S) is None
    assert leads(other, "b", later(10)).epoch == 2


def test_a_clock_that_goes_back_under_its_holder_takes_nothing_from_it(journal: SqlJournal) -> None:
    leads(journal, now=later(86_400))
    assert leads(journal).epoch == 1


def test_only_one_of_many_at_once_gets_it(location: JournalLocation) -> None:
    journals = [location.open() for _ in range(6)]
    got: list[Lease] = []
    all_ready = threading.Barrier(len(journals))

    def ask(number: int, journal: SqlJournal) -> None:
        all_ready.wait()
        if lease := journal.acquire(f"daemon {number}", NOW, LASTING_S):
            got.append(lease)

    threads = [threading.Thread(target=ask, args=each) for each in enumerate(journals)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [lease.epoch for lease in got] == [1]


WRITES = {
    "keep": lambda journal, lease: journal.write_kept(lease, Kept({"cpu": HostSet("cpu-9")})),
    "decided": lambda journal, lease: journal.decided(lease, a_cluster_state(), Memory(), a_decision()),
    "ended": lambda journal, lease: journal.ended(
        lease, [replace(journal.open_intents()[0], result="done", ended=NOW)]
    ),
    "sample": lambda journal, lease: journal.sample(lease, Sample(NOW, 1, 1, {})),
    "saw": lambda journal, lease: journal.saw(lease, [JobRecord(1, NOW, None, None, {})]),
    "launched": lambda journal, lease: journal.launched(lease, [a_launch()]),
    "prune": lambda journal, lease: journal.prune(lease, later(1e6)),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_leader_that_was_paused_past_its_lease_writes_nothing(
    location: JournalLocation, write: str
) -> None:
    paused, other = location.open(), location.open()
    lease = leads(paused)
    paused.write_kept(lease, Kept({"cpu": HostSet("cpu-1")}))
    paused.decided(lease, a_cluster_state(), Memory(), a_decision(DRAIN, desired="cpu-1"))
    leads(other, "b", later(11))
    before = _all(other)
    with pytest.raises(
        Fenced, match=r"a has the lease of the journal .* no more \(epoch 1\): b has it, with epoch 2"
    ):
        WRITES[write](paused, lease)
    assert _all(other) == before


def a_launch(asked_s: float = 0, node: str = "cpu-1") -> LaunchRecord:
    began: dict[LaunchPhase, datetime] = {"asked": later(asked_s), "kernel": later(asked_s + 2.5)}
    return LaunchRecord(node, "cpu", "libvirt", later(asked_s + 9), began)


def _all(journal: SqlJournal) -> object:
    return (
        journal.kept(),
        journal.decisions(),
        journal.intents(),
        journal.open_intents(),
        journal.samples(),
        journal.jobs(),
        journal.launches(),
        journal.leader(),
    )


# Where the daemon is


def test_at_first_nothing_is_known(journal: SqlJournal) -> None:
    assert journal.kept() == Kept(None, Memory())
    assert journal.decisions() == ()
    assert journal.paused() is None
    for found in (
        journal.open_intents(),
        journal.intents(),
        journal.decisions(),
        journal.samples(),
        journal.jobs(),
        journal.launches(),
    ):
        assert found == ()


def test_where_it_is_is_found_by_the_next(location: JournalLocation) -> None:
    one = location.open()
    kept = Kept(
        {"cpu": HostSet("cpu-[1-2]"), "gpu": HostSet()},
        Memory(launches={"cpu-1": Launch(NOW, later(60), (7,))}),
        frozenset({"cpu-3"}),
        frozenset({"cpu-1"}),
        "of this version",
    )
    one.write_kept(leads(one), kept)
    one.close()
    assert location.open().kept() == kept


def test_a_decision_leaves_its_wish_and_memory_and_what_power_saving_asks_for(journal: SqlJournal) -> None:
    lease, decision = leads(journal), a_decision()
    journal.write_kept(lease, Kept(power_up=frozenset({"cpu-3"}), power_down=frozenset({"cpu-1"})))
    journal.decided(lease, a_cluster_state(), Memory(), decision)
    assert journal.kept() == Kept(
        decision.desired, decision.memory, frozenset({"cpu-3"}), frozenset({"cpu-1"})
    )


# Decisions and intents


def test_an_intent_is_open_until_it_ended(location: JournalLocation) -> None:
    one, other = location.open(), location.open()
    lease = leads(one)
    launch, drain, delete_orphan = one.decided(lease, a_cluster_state(), Memory(), a_decision())
    assert [each.action for each in (launch, drain, delete_orphan)] == [LAUNCH, DRAIN, DELETE_ORPHAN]
    assert other.open_intents() == (launch, drain, delete_orphan)
    done = replace(launch, result="done", ended=later(3))
    failed = replace(delete_orphan, result="failed", ended=later(4), text="no such\0machine \ud800")
    one.ended(lease, [done, failed])
    assert other.open_intents() == (drain,)
    assert other.intents() == (failed, drain, done)


def test_a_decision_is_found_with_what_it_was_made_of(journal: SqlJournal) -> None:
    before, decision = Memory(idle_since={"cpu-2": NOW}), a_decision()
    (first, *_) = journal.decided(leads(journal), a_cluster_state(), before, decision)
    (found,) = journal.decisions(limit=1)
    assert (found.id, found.epoch, found.at) == (first.decision, 1, decision.at)
    assert (found.actions, found.waiting, found.cost) == (decision.actions, decision.waiting, decision.cost)
    assert (found.state, found.memory) == (a_cluster_state(), before)
    assert found.counts == {"nodes": 2, "jobs": 0, "machines": 0, "pods": 0}


def test_of_a_large_world_only_its_counts_are_kept(location: JournalLocation) -> None:
    journal = location.open(largest_state_bytes=1000)
    lease = leads(journal)
    for nodes in (2, 3):
        journal.decided(lease, a_cluster_state(nodes), Memory(), a_decision())
    large, small = journal.decisions()
    assert (large.state, large.memory, large.counts["nodes"]) == (None, None, 3)
    assert small.state == a_cluster_state(2)


def test_a_decision_without_actions_is_one_too(journal: SqlJournal) -> None:
    nothing = replace(a_decision(), actions=(), waiting={})
    assert journal.decided(leads(journal), a_cluster_state(), Memory(), nothing) == ()
    (found,) = journal.decisions(limit=1)
    assert found.waiting == {}


def test_decisions_are_found_newest_first_since_when_and_so_many(journal: SqlJournal) -> None:
    lease = leads(journal)
    for second in range(4):
        journal.decided(lease, a_cluster_state(), Memory(), a_decision(at=later(second)))
    assert [each.at for each in journal.decisions()] == [later(second) for second in (3, 2, 1, 0)]
    assert [each.at for each in journal.decisions(since=later(2))] == [later(3), later(2)]
    assert [each.at for each in journal.decisions(limit=1)] == [later(3)]
    assert len({each.id for each in journal.decisions()}) == 4


def test_intents_are_found_by_node_and_by_fleet(journal: SqlJournal) -> None:
    lease = leads(journal)
    other = Drain("gpu", ("gpu-1",), "dear")
    journal.decided(lease, a_cluster_state(), Memory(), a_decision(LAUNCH, DRAIN))
    journal.decided(lease, a_cluster_state(), Memory(), a_decision(other, DELETE_ORPHAN, at=later(5)))

    def actions(**of: object) -> list[Action]:
        return [each.action for each in journal.intents(**of)]  # type: ignore[arg-type]

    assert actions() == [DELETE_ORPHAN, other, DRAIN, LAUNCH]
    assert actions(node="cpu-2") == [DRAIN]
    assert actions(node="cpu-9") == [DELETE_ORPHAN]
    assert actions(node="nobody") == []
    assert actions(fleet="cpu") == [DELETE_ORPHAN, DRAIN, LAUNCH]
    assert actions(fleet="cpu", node="gpu-1") == []
    assert actions(since=later(1)) == [DELETE_ORPHAN, other]
    assert actions(limit=1) == [DELETE_ORPHAN]


def test_a_decision_that_cannot_be_written_leaves_nothing(journal: SqlJournal) -> None:
    lease = leads(journal)
    before = _all(journal)
    wrong = replace(a_decision(), memory=Memory(idle_since={"cpu-1": NOW.replace(tzinfo=None)}))
    with pytest.raises(ValueError, match="time zone"):
        journal.decided(lease, a_cluster_state(), Memory(), wrong)
    assert _all(journal) == before
    assert journal.decided(lease, a_cluster_state(), Memory(), a_decision())[0].id >= 1


# Charts, jobs, and what people say


def test_points_of_the_charts_are_found_in_order(journal: SqlJournal) -> None:
    lease = leads(journal)
    points = [Sample(later(second), 2, 1, {Phase.IDLE: 3, Phase.BUSY: 1}, 0.5) for second in (0, 10, 20)]
    for point in reversed(points):
        journal.sample(lease, point)
    journal.sample(lease, points[0])
    assert journal.samples() == tuple(points)
    assert journal.samples(since=later(10)) == tuple(points[1:])


def test_a_job_that_is_seen_again_is_brought_up_to_date(journal: SqlJournal) -> None:
    lease = leads(journal)
    request = {"cpus": 4, "partitions": ("main",), "tres": {"cpu": "4"}, "begin_time": NOW}
    waits = JobRecord(7, later(1), None, None, request)
    other = JobRecord(8, NOW, NOW, later(2), {})
    journal.saw(lease, [waits, other])
    ran = replace(waits, started=later(3), ended=later(9))
    journal.saw(lease, [ran])
    assert journal.jobs() == (other, ran)
    assert journal.jobs(since=later(1)) == (ran,)
    assert journal.jobs(job_id=8) == (other,)
    assert journal.jobs(since=later(1), job_id=8) == journal.jobs(job_id=9) == ()


def test_numbers_of_jobs_may_come_again(journal: SqlJournal) -> None:
    lease = leads(journal)
    both = tuple(JobRecord(1, later(second), None, None, {}) for second in (0, 60))
    journal.saw(lease, both)
    assert journal.jobs() == both


def test_a_launch_that_is_told_of_again_is_brought_up_to_date(journal: SqlJournal) -> None:
    lease = leads(journal)
    late, early = a_launch(5), a_launch(1, "cpu-2")
    journal.launched(lease, [late, early, a_launch(5, "cpu-3")])
    worked = replace(late, first_job=later(20))
    journal.launched(lease, [worked])
    assert journal.launches() == (early, worked, a_launch(5, "cpu-3"))
    assert journal.launches(later(2)) == (worked, a_launch(5, "cpu-3"))


@settings(
    max_examples=10, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(by=TEXTS, reason=TEXTS)
def test_a_person_pauses_and_continues_without_a_lease(journal: SqlJournal, by: str, reason: str) -> None:
    for pause in (Pause(by, NOW, reason), Pause(by, later(1))):
        journal.pause(pause)
        assert journal.paused() == pause
    for _ in range(2):
        journal.pause(None)
        assert journal.paused() is None


@given(node=st.text(st.characters(), min_size=1, max_size=8))
@settings(
    max_examples=10, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_is_searched_for_is_only_text(journal: SqlJournal, node: str) -> None:
    lease = leads(journal)
    (intent,) = journal.decided(lease, a_cluster_state(), Memory(), a_decision(Drain(node, (node,), node)))
    assert journal.intents(node=node, fleet=node, limit=1) == (intent,)


# Forgetting


def test_what_is_old_is_forgotten_but_for_what_is_open_and_the_last(journal: SqlJournal) -> None:
    lease = leads(journal)
    for second in range(4):
        intents = journal.decided(lease, a_cluster_state(), Memory(), a_decision(DRAIN, at=later(second)))
        if second != 1:
            journal.ended(lease, [replace(each, result="done", ended=NOW) for each in intents])
        journal.sample(lease, Sample(later(second), 0, 0, {}))
        journal.saw(lease, [JobRecord(second, later(second), None, None, {})])
        journal.launched(lease, [a_launch(second)])
    kept, last = journal.kept(), journal.decisions(limit=1)
    journal.prune(lease, later(2))
    assert [each.at for each in journal.decisions()] == [later(3), later(2), later(1)]
    assert [each.at for each in journal.intents(node="cpu-1")] == [later(3), later(2), later(1)]
    assert [each.at for each in journal.samples()] == [later(2), later(3)]
    assert [each.job_id for each in journal.jobs()] == [2, 3]
    assert [each.since for each in journal.launches()] == [later(2), later(3)]
    journal.prune(lease, later(1e6))
    assert [each.at for each in journal.decisions()] == [later(3), later(1)]
    assert (journal.kept(), journal.decisions(limit=1)) == (kept, last)
    # A number is never given to another.
    (intent,) = journal.decided(lease, a_cluster_state(), Memory(), a_decision(DRAIN))
    assert (intent.id, intent.decision) == (5, 5)


# Several at once


def test_readers_see_what_was_while_another_writes(location: JournalLocation) -> None:
    database, reader = location.database(), location.open()
    leads(reader)
    with database.writing() as sql:
        sql.change("UPDATE lease SET holder = 'x'")
        assert reader.leader() == Lease("a", 1, later(LASTING_S))
    assert reader.leader() == Lease("x", 1, later(LASTING_S))


def test_two_writers_at_once_lose_nothing(location: JournalLocation) -> None:
    journals = [location.open(), location.open()]
    lease = leads(journals[0])
    each = 25

    def write(journal: SqlJournal) -> None:
        for _ in range(each):
            journal.decided(lease, a_cluster_state(), Memory(), a_decision())

    threads = [threading.Thread(target=write, args=[journal]) for journal in journals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    decisions = journals[0].decisions(limit=1000)
    intents = journals[0].intents(limit=1000)
    assert sorted(each.id for each in decisions) == list(range(1, 2 * each + 1))
    assert sorted(each.id for each in intents) == list(range(1, 6 * each + 1))
    assert {each.decision for each in intents} == {each.id for each in decisions}


def test_one_journal_serves_several_threads(journal: SqlJournal) -> None:
    lease = leads(journal)
    failures: list[Exception] = []

    def use() -> None:
        try:
            for _ in range(20):
                journal.write_kept(lease, Kept())
                journal.kept()
        except JournalError as error:
            failures.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_closing_twice_is_no_mistake_and_it_opens_again_when_it_is_asked(journal: SqlJournal) -> None:
    for _ in range(2):
        journal.close()
    assert journal.kept() == Kept()


def test_what_cannot_be_read_is_said_and_does_not_hide_the_rest(location: JournalLocation) -> None:
    journal = location.open()
    lease = leads(journal)
    journal.decided(lease, a_cluster_state(), Memory(), a_decision())
    with location.database().writing() as sql:
        sql.change("UPDATE decision SET world = ?", [b"{}"])
        sql.change("UPDATE kept SET body = ?", [b"[]"])
    (found,) = journal.decisions(limit=1)
    assert found.state is None
    assert found.waiting == {7: Waiting(7, "coming", "cpu-3 is being made for it", ("cpu-3",))}
    with pytest.raises(JournalError, match=r"holds what cannot be read .* put back a copy, or move it aside"):
        journal.kept()


def test_a_journal_of_a_newer_release_is_refused_and_left_alone(location: JournalLocation) -> None:
    with location.database().writing() as sql:
        sql.change("UPDATE tidepool_journal SET version = 99")
    with pytest.raises(
        JournalError, match=r"written by a newer release of Tidepool \(schema 99; this one knows 2\)"
    ):
        location.open()


def test_one_of_an_earlier_release_is_brought_forward_with_all_that_is_in_it(
    location: JournalLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = location.open()
    old.pause(Pause("me", NOW))
    migrations = (
        *database.MIGRATIONS,
        "ALTER TABLE pause ADD COLUMN more TEXT;\nUPDATE pause SET more = 'new';\n",
    )
    for module in (database, sqlite, postgres):
        monkeypatch.setattr(module, "MIGRATIONS", migrations)
    for _ in range(2):
        new = location.database()
        with new.reading() as sql:
            assert sql.run("SELECT more FROM pause") == [("new",)]
            assert sql.run("SELECT version FROM tidepool_journal") == [(len(migrations),)]
    assert location.open().paused() == Pause("me", NOW)


def test_many_that_open_an_empty_one_at_once_all_get_it(location: JournalLocation) -> None:
    all_ready = threading.Barrier(4)
    journals: list[SqlJournal] = []

    def open_it() -> None:
        all_ready.wait()
        journals.append(location.open())

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    leads(journals[0])
    assert [journal.leader() for journal in journals] == [Lease("a", 1, later(LASTING_S))] * 4
