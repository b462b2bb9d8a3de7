"""How often slurmdbd is asked what accounts have used, what holds while it does not answer, and what Slurm holds."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.scaling.decide.cluster_states import fleet, spec
from tidepool.clients.slurm import DatabaseDown, TimedOut
from tidepool.clients.slurm.limits import Limited, Use
from tidepool.clients.slurm.usage import AccountRecords, JobTime
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.memory import BudgetUse, Memory
from tidepool.scaling.observe import account_watch
from tidepool.scaling.observe.account_watch import AccountWatch, Held
from tidepool.scaling.observe.kubernetes_watch import AtOnce
from tidepool.scaling.usage import AccountUsage

AT = datetime(2026, 11, 21, tzinfo=UTC)
DAY_S = 86_400
BUDGET = {"budget": {"node_hours_per_month": 5}}


@dataclass
class Records(AccountRecords):
    """slurmdbd with accounts that are held, or have a limit."""

    held: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[int, int]] = field(default_factory=list)
    is_down: bool = False
    #: Spans in which this moment lies are not to be had where they are longer than this.
    broken_s: int = 0
    longest_s: int = 0

    def job_times(self, begin: int, end: int) -> tuple[JobTime, ...]:
        self._answer()
        self.asked.append((begin, end))
        if begin <= self.broken_s < end and end - begin > self.longest_s:
            raise TimedOut("sacct did not end within 60 s", where="here", remedy="see")
        return (JobTime("physics", "ada", "cpu-1", end - 60, end, 60, 1),)

    def limits(self) -> tuple[Limited, ...]:
        own = (("physics", self.held.get("physics")), ("biology", self.held.get("biology")))
        return tuple(Limited({("GrpJobs", ""): Use(value)} if value else {}, name) for name, value in own)

    def set_holding_limit(self, accounts: Collection[str], value: str) -> None:
        self._answer()
        self.held.update(dict.fromkeys(accounts, value))

    def close(self) -> None: ...

    def _answer(self) -> None:
        if self.is_down:
            raise DatabaseDown("slurmdbd does not answer", where="here", remedy="see")


class Scene:
    def __init__(self, **limits: str) -> None:
        self.now_s = 0.0
        self.memory = Memory()
        self.records = Records()
        accounts = [{"name": "physics", "limits": limits, **BUDGET}, {"name": "biology"}]
        self.spec = spec(fleet(), controller={"accounting": {}}, accounts=accounts)
        self.watch = AccountWatch(lambda *_: self.records, AtOnce(), lambda: self.now_s)

    def look(self, known: AccountUsage | None = None) -> AccountUsage | None:
        at = AT + timedelta(seconds=self.now_s)
        return self.watch.latest({}, self.spec, at, replace(self.memory, usage=known), is_active=True)

    def hold(self, spent: Collection[str], former: Collection[str] = ()) -> Held:
        return self.watch.hold(self.spec, spent, former)

    def without_budgets(self) -> ClusterSpec:
        """The spec where somebody took the budget out."""
        return spec(fleet(), controller={"accounting": {}}, accounts=[{"name": "physics"}])


def test_it_is_asked_now_and_then_and_not_at_all_where_nobody_has_a_budget() -> None:
    scene = Scene()
    for _ in range(100):
        assert scene.look() is not None
        scene.now_s += 0.1
    # All of the month, a day each time; and then each 3 s.
    assert len(scene.records.asked) == 20 + 3
    nobody = Scene()
    nobody.spec = spec(fleet())
    assert nobody.look() is None
    assert nobody.records.asked == []


def test_what_was_seen_holds_while_slurmdbd_does_not_answer() -> None:
    scene = Scene()
    seen = scene.look()
    scene.records.is_down = True
    scene.now_s += 60
    assert scene.look() == seen
    assert "slurmdbd cannot be asked" in scene.watch.failure
    scene.records.is_down = False
    scene.now_s += 60
    assert scene.look() != seen
    assert scene.watch.failure == ""


def test_it_goes_on_from_what_the_last_daemon_knew() -> None:
    before = Scene().look()
    scene = Scene()
    scene.now_s = 600
    scene.look(before)
    (begin, _) = scene.records.asked[0]
    assert before is not None
    assert begin == int(before.settled_until.timestamp())


def test_all_of_a_month_is_asked_for_once_a_day_a_day_each_time_beside_the_last_hours() -> None:
    scene = Scene()
    scene.now_s = 600
    scene.look()
    scene.records.asked.clear()
    while scene.now_s < 3 * DAY_S:
        before, seen = len(scene.records.asked), scene.look()
        assert seen is not None
        # No look is late for it.
        assert seen.until == AT + timedelta(seconds=scene.now_s) or before == len(scene.records.asked)
        assert len(scene.records.asked) - before <= 2
        scene.now_s += 600
    lengths = [end - begin for begin, end in scene.records.asked]
    assert max(lengths) <= DAY_S + 3600
    # On the 22nd and on the 23rd, all days before.
    assert sum(length == DAY_S for length in lengths) == 21 + 22


def test_where_a_day_is_not_to_be_had_it_goes_on_from_there_in_shorter_spans_and_what_is_known_is_counted_on() -> (
    None
):
    first = int(AT.timestamp()) - 5 * DAY_S
    scene = Scene()
    scene.records.broken_s, scene.records.longest_s = first + 1, DAY_S // 4
    assert scene.look() is None
    assert "sacct did not end" in scene.watch.failure
    pauses = []
    while scene.watch.failure:
        before, since = len(scene.records.asked), scene.now_s
        while before == len(scene.records.asked):
            scene.now_s += 1
            scene.look()
        pauses.append(scene.now_s - since)
    assert pauses == [10, 20]
    assert scene.look() is not None
    # Each day before that one was asked for once.
    assert [begin for begin, _ in scene.records.asked if begin < first] == [
        int(AT.timestamp()) - (20 - day) * DAY_S for day in range(15)
    ]

    # On the next day as well; meanwhile what was used since is known.
    scene.records.longest_s = 0
    for quarter in range(1, 30 * 4):
        scene.now_s = 900.0 * quarter
        seen = scene.look()
    assert seen is not None
    assert seen.until == AT + timedelta(seconds=scene.now_s)
    assert "sacct did not end" in scene.watch.failure


def test_a_spent_account_is_held_and_let_go_whatever_was_there() -> None:
    scene = Scene()
    assert scene.hold({"physics"}) == Held()  # nothing was looked at yet
    scene.look()
    assert scene.hold({"physics"}) == Held(("physics",))
    assert scene.hold({"physics"}) == Held()
    assert scene.records.held == {"physics": "0"}
    # A daemon that was killed remembers nothing: the next one sees it, and somebody's own hold is left alone.
    after = Scene()
    after.records.held = {"physics": "0", "biology": "0"}
    after.look()
    assert after.hold(()) == Held((), ("physics",))
    assert after.records.held == {"physics": "-1", "biology": "0"}


def test_who_is_let_go_has_the_limit_of_the_spec() -> None:
    scene = Scene(GrpJobs="7")
    scene.records.held = {"physics": "0"}
    scene.look()
    scene.hold(())
    assert scene.records.held == {"physics": "7"}


def test_who_could_not_be_held_is_held_a_while_later() -> None:
    scene = Scene()
    scene.look()
    scene.records.is_down = True
    assert scene.hold({"physics"}) == Held()
    assert "cannot be held" in scene.watch.failure
    scene.records.is_down = False
    assert scene.hold({"physics"}) == Held()
    scene.now_s += 10
    assert scene.hold({"physics"}) == Held(("physics",))


def test_who_has_no_budget_any_more_is_let_go_and_who_never_had_one_is_left() -> None:
    scene = Scene()
    scene.spec = scene.without_budgets()
    scene.records.held = {"physics": "0", "biology": "0"}
    assert scene.look() is None
    scene.memory = Memory(
        budgets={"physics": BudgetUse("2026-11", 100), "chemistry": BudgetUse("2026-11", 100)}
    )
    scene.look()
    former = ("physics", "chemistry")
    scene.records.is_down = True
    assert scene.hold((), former) == Held()
    scene.now_s += 10
    scene.records.is_down = False
    # There is no account of that name any more.
    assert scene.hold((), former) == Held((), ("physics",), former)
    assert scene.records.held == {"physics": "-1", "biology": "0"}
    assert scene.hold((), former) == Held((), (), former)


def test_what_is_known_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    known, waited = Scene().look(), []
    monkeypatch.setattr(account_watch, "wait", lambda looks, seconds: waited.append(seconds))
    for before in (known, None):
        scene = Scene()
        # It has begun, and is not done.
        monkeypatch.setattr(AtOnce, "submit", lambda *_: Future())
        assert scene.look(before) is None
        assert len(waited) == (before is None)
