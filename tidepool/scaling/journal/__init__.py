"""The scaler's journal, durable: SQLite beside the stack, or PostgreSQL where a stack's daemon is doubled.

journal = open_journal(data / stack / "scaler", os.environ)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidepool.scaling.journal.database import Database
from tidepool.scaling.journal.journal import LARGEST_STATE_BYTES, SqlJournal
from tidepool.scaling.journal.sqlite import SqliteDatabase
from tidepool.scaling.ports import Journal, JournalError

#: ``postgresql://USER@HOST/DATABASE``: the journal is there, in a schema of the stack's own.
JOURNAL_VARIABLE: Final = "TIDEPOOL_JOURNAL"
JOURNAL_FILE: Final = "journal.sqlite"


def open_journal(
    folder: Path,
    environment: Mapping[str, str],
    *,
    stack: str = "",
    power_safe: bool = True,
    largest_state_bytes: int = LARGEST_STATE_BYTES,
) -> Journal:
    """The journal of the stack whose scaler has ``folder``, which is made where it is missing.

    In a database that ``environment`` names, the stack's part has the name ``stack``; by default that of the folder
    above ``folder``. Without ``power_safe`` a file's writes do not wait for the disk, as suits tests. Of cluster states
    that take about more than ``largest_state_bytes``, only counts are kept.

    Raises:
        JournalError: it cannot be opened; says why, and what to do.
    """
    url = environment.get(JOURNAL_VARIABLE, "").strip()
    database: Database
    if not url:
        database = SqliteDatabase(folder / JOURNAL_FILE, power_safe=power_safe)
    elif url.partition("://")[0] in {"postgresql", "postgres"}:
        # Late: it takes a tenth of a second, and few need it.
        from tidepool.scaling.journal.postgres import PostgresDatabase

        database = PostgresDatabase(url, stack or folder.parent.name)
    else:
        # What it is is not said: there may be a password in it.
        raise JournalError(
            f"{JOURNAL_VARIABLE} names no database that is known; write postgresql://USER@HOST/DATABASE, or leave it out"
        )
    return SqlJournal(database, largest_state_bytes=largest_state_bytes)
