"""The journal in PostgreSQL: servers that go, hang, and come back."""

from __future__ import annotations

import signal
import traceback
from pathlib import Path

import psycopg
import pytest

from tests.postgres import Postgres
from tests.scaling.journal.conftest import JournalLocation
from tests.scaling.journal.test_contract import leads
from tests.scaling.journal.values import NOW, a_cluster_state, a_decision, later
from tidepool.scaling.journal import JOURNAL_VARIABLE, open_journal
from tidepool.scaling.journal.postgres import PostgresDatabase, schema_name
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import JournalError, Kept, Pause


def test_it_goes_on_when_the_server_is_back(postgres: Postgres, in_postgres: JournalLocation) -> None:
    journal = in_postgres.open()
    lease = leads(journal)
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(JournalError, match=r"cannot be used: .*; see whether the server runs"):
                journal.write_kept(lease, Kept())
    finally:
        postgres.start()
    journal.write_kept(lease, Kept(power_up=frozenset({"cpu-1"})))
    assert journal.kept().power_up == {"cpu-1"}


def test_a_connection_that_was_cut_between_two_calls_is_made_again(
    postgres: Postgres, in_postgres: JournalLocation
) -> None:
    journal = in_postgres.open()
    lease = leads(journal)
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'tidepool'"
        )
    journal.write_kept(lease, Kept())


def test_a_server_that_hangs_is_not_waited_for_for_ever(
    postgres: Postgres, in_postgres: JournalLocation
) -> None:
    in_postgres.database()  # so that the tables are there: on a busy machine to make them takes longer than this
    database = PostgresDatabase(postgres.url, in_postgres.stack, answer_timeout_s=1.0)
    in_postgres.opened.append(database)
    postgres.signal(signal.SIGSTOP)
    try:
        with pytest.raises(JournalError, match="cannot be used"), database.writing() as sql:
            sql.change("UPDATE lease SET epoch = epoch")
    finally:
        postgres.signal(signal.SIGCONT)
    with database.writing() as sql:
        assert sql.change("UPDATE lease SET epoch = epoch") == 1


def test_one_that_is_stopped_in_the_middle_of_a_write_keeps_nobody_out(in_postgres: JournalLocation) -> None:
    stopped, other = in_postgres.database(), in_postgres.open()

    def stop_in_the_middle() -> None:
        with stopped.writing() as sql:
            sql.change("SET LOCAL idle_in_transaction_session_timeout = '10ms'")
            sql.change("UPDATE lease SET holder = 'x', epoch = 5, is_held = 1, until_us = 9000000000000000")
            assert leads(other, "b").epoch == 1
            sql.change("UPDATE lease SET epoch = epoch")

    with pytest.raises(JournalError, match="cannot be used"):
        stop_in_the_middle()
    leader = other.leader()
    assert leader is not None
    assert leader.holder == "b"


def test_the_time_of_leases_is_the_servers(postgres: Postgres, in_postgres: JournalLocation) -> None:
    environment = {JOURNAL_VARIABLE: postgres.url}
    folder = Path("somewhere") / in_postgres.stack / "scaler"
    one, other = (open_journal(folder, environment) for _ in range(2))
    lease = one.acquire("a", NOW, 60)
    assert lease is not None
    # The holder's copy of it is by its own clock, as it is what the holder looks at.
    assert lease.until == later(60)
    assert other.acquire("b", later(1e6), 60) is None
    for journal in (one, other):
        journal.close()


def test_each_stack_has_its_own(postgres: Postgres, in_postgres: JournalLocation) -> None:
    environment = {JOURNAL_VARIABLE: postgres.url}
    journal = in_postgres.open()
    journal.pause(Pause("me", NOW))
    other = open_journal(Path(f"/x/{in_postgres.stack}-Two/scaler"), environment)
    assert other.paused() is None
    other.close()
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema_name(in_postgres.stack + '-Two')} CASCADE".encode())


def test_names_of_schemas_are_told_apart_and_short() -> None:
    names = [schema_name(stack) for stack in ("dev", "Dev", "d-v", "d_v", "x" * 100, "x" * 101)]
    assert names[0] == "tidepool_dev"
    assert len(set(names)) == len(names)
    assert all(len(name) <= 63 and name.replace("_", "").isalnum() for name in names)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@/nothing?host=/nowhere",
        "postgresql://me:hunter2@%zz/nothing",
        "postgresql://me:hunter2@127.0.0.1:1/nothing?connect_timeout=1",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    with pytest.raises(JournalError) as caught:
        PostgresDatabase(url, "dev")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_server_that_cannot_be_reached_is_named(postgres: Postgres) -> None:
    with pytest.raises(
        JournalError, match=r"the journal postgresql://127.0.0.1:1/nothing, schema tidepool_dev"
    ):
        PostgresDatabase("postgresql://me@127.0.0.1:1/nothing", "dev")


def test_a_table_that_is_missing_is_said(in_postgres: JournalLocation) -> None:
    journal = in_postgres.open()
    with in_postgres.database().writing() as sql:
        sql.change("DROP TABLE intent")
    with pytest.raises(JournalError, match=r'relation "intent" does not exist.*put back a copy'):
        journal.decided(leads(journal), a_cluster_state(), Memory(), a_decision())
