"""Two daemons as real processes: one is stopped past its lease, or killed at each step of a grow, a drain, a shrink."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.scaling.daemon.processes import CONTEXT, Keeper, run_daemon
from tidepool.scaling.journal import JOURNAL_FILE, open_journal

pytestmark = pytest.mark.slow

#: So long that a machine with other work does not keep a leader from renewing it.
_LEASE_S: Final = 3.0
_LONG_S: Final = 60.0
_NEVER: Final = ("", 0)


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    with Keeper(ctx=CONTEXT) as it:
        yield it


@pytest.fixture
def cluster(keeper: Keeper) -> Any:
    return keeper.cluster()  # type: ignore[attr-defined]


@contextmanager
def a_daemon(cluster: Any, folder: Path, holder: str, dies_at: tuple[str, int] = _NEVER) -> Iterator[Any]:
    process = CONTEXT.Process(target=run_daemon, args=(cluster, folder, holder, _LEASE_S, dies_at))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _LONG_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {_LONG_S:g} s: {what}"
        time.sleep(0.01)


def stop_between_writes(pid: int, journal: Path) -> None:
    """Stop it where it holds no lock of the journal: in the middle of a write it would keep everybody else out."""
    deadline = time.monotonic() + _LONG_S
    while True:
        os.kill(pid, signal.SIGSTOP)
        until(lambda: is_stopped(pid), "it is stopped")
        if not is_locked(journal):
            return
        os.kill(pid, signal.SIGCONT)
        assert time.monotonic() < deadline, "it writes whenever it is stopped"
        time.sleep(0.02)


def is_stopped(pid: int) -> bool:
    """Whether all its threads are: the signal reaches them one after the other."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return {stat.rpartition(")")[2].split()[0] for stat in stats} == {"T"}


def is_locked(journal: Path) -> bool:
    connection = sqlite3.connect(journal, timeout=0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if not error.sqlite_errorname.startswith("SQLITE_BUSY"):
            raise
        return True
    finally:
        connection.close()
    return False


def is_done(cluster: Any) -> bool:
    return all(state == "COMPLETED" for state, _ in cluster.jobs()) and not cluster.left()


@pytest.mark.parametrize(
    "dies_at",
    [
        # A grow: decided and not written down; written down; the `up` begun; ended and not noted; noted.
        ("decided", 2),
        ("intends", 1),
        ("up-begins", 1),
        ("up-ended", 1),
        ("ended", 1),
        # The drain that follows: written down; done in Slurm and noted.
        ("intends", 2),
        ("ended", 2),
        # The shrink.
        ("intends", 3),
        ("up-begins", 2),
        ("up-ended", 2),
        ("ended", 3),
    ],
    ids=str,
)
def test_killed_at_a_step_the_next_one_goes_on_from_there(
    cluster: Any, tmp_path: Path, dies_at: tuple[str, int]
) -> None:
    cluster.submit(0.1)
    with a_daemon(cluster, tmp_path, "first", dies_at) as first:
        first.join(_LONG_S)
        assert first.exitcode == -signal.SIGKILL
    with a_daemon(cluster, tmp_path, "second"):
        until(
            lambda: is_done(cluster), f"the cluster is at rest; there is {cluster.left()}, {cluster.jobs()}"
        )
        journal = open_journal(tmp_path, {}, stack="dev")
        until(lambda: not journal.open_intents(), "all intents have a result")
        journal.close()
    assert {restarts for _, restarts in cluster.jobs()} == {0}


def test_a_leader_that_is_stopped_past_its_lease_and_woken_does_nothing_more(
    cluster: Any, tmp_path: Path
) -> None:
    with a_daemon(cluster, tmp_path, "first") as first:
        until(lambda: ("first", "leads") in cluster.said(), "the first leads")
        stop_between_writes(first.pid, tmp_path / JOURNAL_FILE)
        with a_daemon(cluster, tmp_path, "second"):
            until(lambda: ("second", "leads") in cluster.said(), "the second leads")
            cluster.submit(0.1)
            until(lambda: ("second", "up-begins") in cluster.said(), "the second acts")
            os.kill(first.pid, signal.SIGCONT)
            until(lambda: ("first", "lost-the-lease") in cluster.said(), "the first knows")
            cluster.submit(0.1)
            until(lambda: is_done(cluster), "both jobs are done, and all nodes gone")
        assert first.is_alive()
        acted = {holder for holder, name in cluster.said() if name in ("intends", "up-begins", "ended")}
        assert acted == {"second"}
        # And when that is gone, it acts again.
        cluster.submit(0.1)
        until(lambda: is_done(cluster), "the first serves it")
    assert {restarts for _, restarts in cluster.jobs()} == {0}
