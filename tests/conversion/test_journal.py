"""The journal of conversions: who may order, cancel, drive and write, in several processes at once, killed at any moment."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import runs
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import Role
from tidepool.conversion.journal import Journal
from tidepool.conversion.ports import ConversionError, NotOrdered, TakenOver
from tidepool.conversion.record import Conversion, Order, Work, read, written
from tidepool.journals.journal_file import stamp
from tidepool.journals.processes import is_dead, new_driver

AT = datetime(2026, 11, 22, 12, tzinfo=UTC)
ROOT = Path(__file__).parents[2]


class Clock:
    def __init__(self) -> None:
        self.now = AT

    def __call__(self) -> datetime:
        return self.now

    def go(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal(tmp_path: Path, clock: Clock) -> Iterator[Journal]:
    opened = Journal(tmp_path / "dev" / "conversions.db", now=clock)
    yield opened
    opened.close()


def order(to: Role = "kubernetes", node: str = "shared-1", **more: Any) -> Order:
    return Order(node, "shared", to, AT, "person", "a test", **more)


def driven(journal: Journal, clock: Clock, driver: str = "me", **more: Any) -> Conversion:
    conversion = journal.order(order(**more), "slurm")
    assert journal.take_over(conversion.id, driver, clock(), 60)
    return journal.conversion(conversion.id)


def entered(journal: Journal, conversion: Conversion, phase: Any, clock: Clock) -> Conversion:
    began = FrozenDict({**conversion.began, phase: clock()})
    ended = clock() if phase in ("done", "stopped", "failed") else None
    return journal.write(replace(conversion, phase=phase, began=began, ended=ended))


def test_what_is_written_is_read(journal: Journal, clock: Clock) -> None:
    conversion = driven(journal, clock, deadline_s=12.5, at_deadline="force")
    work = (Work("pod", "default/web-0", "ReplicaSet/web", "evicted", "é"),)
    kept = journal.write(replace(conversion, text="waits", work=work, back_because="no"))
    assert kept == replace(conversion, text="waits", work=work, back_because="no")
    assert journal.under_way("shared-1") == journal.conversion(conversion.id) == kept
    assert journal.conversions() == (kept,)
    assert journal.under_way("shared-2") is None


@given(
    st.builds(
        Conversion,
        id=st.integers(1, 2**40),
        order=st.builds(
            Order,
            node=st.text(),
            pool=st.text(),
            to=st.sampled_from(["slurm", "kubernetes"]),
            at=st.datetimes(timezones=st.just(UTC)),
            by=st.text(),
            reason=st.text(),
            is_forced=st.booleans(),
            deadline_s=st.floats(0, 1e6),
            at_deadline=st.sampled_from(["stop", "force"]),
        ),
        leaves=st.sampled_from([None, "slurm", "kubernetes"]),
        phase=st.sampled_from(["asked", "emptying", "done"]),
        began=st.dictionaries(st.text(), st.datetimes(timezones=st.just(UTC))).map(FrozenDict),
        ended=st.none() | st.datetimes(timezones=st.just(UTC)),
        cancel_by=st.text(),
        back_because=st.text(),
        text=st.text(),
        work=st.lists(
            st.builds(
                Work,
                kind=st.sampled_from(["job", "pod"]),
                name=st.text(),
                owner=st.text(),
                fate=st.sampled_from(["runs", "cancelled"]),
                text=st.text(),
            )
        ).map(tuple),
        driver=st.text(),
        driver_until=st.none() | st.datetimes(timezones=st.just(UTC)),
    )
)
@runs(60)
def test_any_conversion_survives_its_text(conversion: Conversion) -> None:
    row = {
        "id": conversion.id,
        "node": conversion.order.node,
        "pool": conversion.order.pool,
        "phase": conversion.phase,
        "ended": stamp(conversion.ended),
        "is_forced": int(conversion.order.is_forced),
        "cancel_by": conversion.cancel_by,
        "driver": conversion.driver,
        "driver_until": stamp(conversion.driver_until),
        "body": written(conversion),
    }
    assert read(row) == conversion


def test_the_same_order_twice_is_one_and_may_be_forced_by_the_second(journal: Journal) -> None:
    first = journal.order(order(), "slurm")
    assert journal.order(order(), "slurm") == first
    forced = journal.order(order(is_forced=True), "slurm")
    assert (forced.id, forced.order.is_forced) == (first.id, True)
    assert journal.order(order(), "slurm").order.is_forced


def test_another_order_waits_for_the_one_under_way(journal: Journal, clock: Clock) -> None:
    entered(journal, driven(journal, clock), "holding", clock)
    # Its driver has said nothing for long, but it has begun, and will be gone on with.
    clock.go(3600)
    with pytest.raises(NotOrdered, match=r"to kubernetes .*tidepool convert shared-1 --cancel"):
        journal.order(order("slurm"), "slurm")
    assert journal.order(order("slurm", "shared-2"), None).id == 2


def test_an_order_that_nobody_carries_out_gives_way(journal: Journal, clock: Clock) -> None:
    journal.order(order(), "slurm")
    with pytest.raises(NotOrdered):
        journal.order(order("slurm"), "slurm")
    clock.go(61)
    second = journal.order(order("slurm"), "slurm")
    first = journal.conversion(1)
    assert (first.phase, first.is_under_way) == ("stopped", False)
    assert journal.under_way("shared-1") == second


def test_a_cancel_of_what_nobody_has_begun_is_its_end(journal: Journal) -> None:
    journal.order(order(), "slurm")
    assert journal.cancel("shared-1", "anna").phase == "stopped"
    with pytest.raises(NotOrdered, match="not being converted"):
        journal.cancel("shared-1", "anna")
    with pytest.raises(NotOrdered, match="not being converted"):
        journal.force("shared-1", "anna")


def test_a_cancel_is_in_time_until_it_leaves(journal: Journal, clock: Clock) -> None:
    conversion = driven(journal, clock)
    for phase in ("holding", "emptying", "leaving"):
        conversion = entered(journal, conversion, phase, clock)
    with pytest.raises(NotOrdered, match=r"point of no return.*--to slurm"):
        journal.cancel("shared-1", "anna")


def test_what_is_cancelled_does_not_leave(journal: Journal, clock: Clock) -> None:
    conversion = entered(journal, driven(journal, clock), "emptying", clock)
    journal.cancel("shared-1", "anna")
    stays = entered(journal, conversion, "leaving", clock)
    assert (stays.phase, stays.cancel_by) == ("emptying", "anna")
    back = entered(journal, stays, "restoring", clock)
    assert back.phase == "restoring"
    for wanted in ("slurm", "kubernetes"):
        with pytest.raises(NotOrdered):
            journal.order(order(wanted), "slurm")
    with pytest.raises(NotOrdered, match="by force when that is over"):
        journal.force("shared-1", "anna")
    assert journal.cancel("shared-1", "ben").cancel_by == "anna"


def test_who_does_not_drive_writes_nothing(journal: Journal, clock: Clock) -> None:
    conversion = driven(journal, clock)
    assert not journal.take_over(conversion.id, "another", clock(), 60)
    clock.go(61)
    assert journal.take_over(conversion.id, "another", clock(), 60)
    with pytest.raises(TakenOver):
        journal.write(conversion)
    journal.let_go(conversion.id, "me")
    assert journal.conversion(conversion.id).driver == "another"
    journal.let_go(conversion.id, "another")
    assert journal.take_over(conversion.id, "me", clock(), 60)
    ended = entered(journal, journal.conversion(conversion.id), "done", clock)
    assert not journal.take_over(conversion.id, "me", clock(), 60)
    with pytest.raises(TakenOver):
        journal.write(ended)


def test_a_driver_whose_process_is_gone_is_followed_at_once(tmp_path: Path) -> None:
    with SqliteHere(tmp_path) as journal:
        program = (
            "import sys, signal\n"
            "from datetime import datetime, UTC\nfrom pathlib import Path\n"
            "from tidepool.journals.processes import new_driver\n"
            "from tidepool.conversion.journal import Journal\n"
            "journal = Journal(Path(sys.argv[1]))\n"
            "print(journal.take_over(1, new_driver(), datetime.now(UTC), 60), flush=True)\n"
            "signal.pause()\n"
        )
        conversion = journal.order(replace(order(), at=datetime.now(UTC)), "slurm")
        path = tmp_path / "conversions.db"
        with subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, cwd=ROOT, text=True
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "True\n"
            mine = new_driver()
            assert not journal.take_over(conversion.id, mine, datetime.now(UTC), 60)
            other.send_signal(signal.SIGKILL)
            other.wait()
        assert is_dead(journal.conversion(conversion.id).driver)
        assert journal.take_over(conversion.id, mine, datetime.now(UTC), 60)
        assert not is_dead(mine)


class SqliteHere:
    def __init__(self, folder: Path) -> None:
        self.journal = Journal(folder / "conversions.db")

    def __enter__(self) -> Journal:
        return self.journal

    def __exit__(self, *_: object) -> None:
        self.journal.close()


def test_of_other_machines_and_boots_nothing_is_known() -> None:
    assert not is_dead("another-boot/1/1/x")
    assert not is_dead("nonsense")
    mine = new_driver().split("/")
    assert is_dead("/".join([mine[0], mine[1], "1", "x"])), "the number is another process's by now"


def test_many_processes_order_and_one_conversion_is_under_way(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom datetime import datetime, UTC\nfrom pathlib import Path\n"
        "from tidepool.conversion.journal import Journal\n"
        "from tidepool.conversion.record import Order\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "for n in range(20):\n"
        "    made = journal.order(Order(f'shared-{n}', 'shared', 'slurm', datetime.now(UTC), 'person', ''), None)\n"
        "    print(made.order.node, made.id)\n"
    )
    argv = [sys.executable, "-c", program, str(tmp_path / "conversions.db")]
    others = [subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT, text=True) for _ in range(4)]
    said = [other.communicate(timeout=60)[0].splitlines() for other in others]
    assert [other.returncode for other in others] == [0] * 4
    assert said[0] == said[1] == said[2] == said[3]
    assert len(said[0]) == 20


def test_threads_share_it(journal: Journal) -> None:
    faults: list[Exception] = []

    def work(n: int) -> None:
        try:
            conversion = journal.order(order(node=f"shared-{n}"), "slurm")
            assert journal.take_over(conversion.id, f"d{n}", AT, 60)
            for text in map(str, range(20)):
                journal.write(replace(journal.conversion(conversion.id), text=text))
        except Exception as fault:  # noqa: BLE001 - of a thread
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert {each.text for each in journal.conversions()} == {"19"}


def test_all_who_open_a_new_one_at_once_have_it(tmp_path: Path) -> None:
    """As the roles of a pool do in its first `up`."""
    for number in range(30):
        path, together, wrong = (
            tmp_path / str(number) / "conversions.db",
            threading.Barrier(8),
            list[Exception](),
        )

        def open_it(
            path: Path = path, together: threading.Barrier = together, wrong: list[Exception] = wrong
        ) -> None:
            together.wait()
            try:
                Journal(path, power_safe=False).close()
            except ConversionError as error:
                wrong.append(error)

        threads = [threading.Thread(target=open_it) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_what_ended_long_ago_is_forgotten_and_what_is_under_way_is_not(
    journal: Journal, clock: Clock
) -> None:
    entered(journal, driven(journal, clock), "done", clock)
    journal.order(order(node="shared-2"), "slurm")
    clock.go(10)
    entered(journal, driven(journal, clock), "done", clock)
    assert [each.id for each in journal.conversions(since=AT + timedelta(seconds=5))] == [3, 2]
    assert [each.id for each in journal.conversions(node="shared-1", limit=1)] == [3]
    journal.prune(AT + timedelta(seconds=5))
    assert [each.id for each in journal.conversions()] == [3, 2]
    with pytest.raises(ConversionError, match="no conversion 1"):
        journal.conversion(1)


def test_what_is_under_way_is_given_however_many_came_after_it(journal: Journal, clock: Clock) -> None:
    old = driven(journal, clock)
    for number in range(2, 6):
        later = driven(journal, clock, node=f"shared-{number}")
        entered(journal, later, "done", clock)
    assert [each.order.node for each in journal.conversions(limit=2)] == ["shared-5", "shared-4", "shared-1"]
    assert [each.order.node for each in journal.conversions(node="shared-1", limit=1)] == ["shared-1"]
    assert len(journal.conversions(limit=None)) == 5
    entered(journal, old, "stopped", clock)
    assert [each.order.node for each in journal.conversions(limit=2)] == ["shared-5", "shared-4"]


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with SqliteHere(tmp_path / "new") as journal:
            journal.order(order(), None)
            modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
            assert modes == {0o600}
            assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_what_is_no_journal_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "conversions.db"
    path.write_text("not a database, and long enough to be looked at as one" * 20)
    with pytest.raises(ConversionError, match="cannot be used"):
        Journal(path)
    path.unlink()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.commit()
    other.close()
    with pytest.raises(ConversionError, match="no journal of conversions"):
        Journal(path)


def test_a_row_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with SqliteHere(tmp_path) as journal:
        journal.order(order(), None)
        other = sqlite3.connect(tmp_path / "conversions.db")
        other.execute("UPDATE conversions SET body = '{}'")
        other.commit()
        other.close()
        with pytest.raises(ConversionError, match=r"conversion 1 .* cannot be read"):
            journal.under_way("shared-1")
