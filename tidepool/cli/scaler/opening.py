"""Where the record is read from: the stack's journal. It is never made here, and never written to."""

from __future__ import annotations

from datetime import UTC, datetime

from tidepool.cli.cluster import require_cluster
from tidepool.cli.scaler.place import has_journal, scaler_folder
from tidepool.cli.scaler.record import Record, read_record
from tidepool.cli.stack import Stack
from tidepool.scaling.journal import open_journal
from tidepool.scaling.ports import Journal


class Source:
    """The journal of ``stack``, opened when it is there: a daemon may make it meanwhile."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._journal: Journal | None = None
        self._is_known = False

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()

    @property
    def journal(self) -> Journal | None:
        """None where no daemon has made it yet.

        Raises:
            JournalError: it cannot be opened, a newer release wrote it, ...
            Failure: there is none, and the cluster is not up either.
        """
        if self._journal is None:
            self._journal = opened(self._stack)
            if self._journal is None and not self._is_known:
                require_cluster(self._stack)
            self._is_known = True
        return self._journal

    def read(self) -> Record:
        """What it says now.

        Raises:
            JournalError: it cannot be read.
            Failure: as for `journal`.
        """
        now = local_now()
        journal = self.journal
        return read_record(journal, self._stack.name, now) if journal else Record(self._stack.name, now)


def opened(stack: Stack) -> Journal | None:
    """The journal of ``stack``, to read it; None where there is none.

    Raises:
        JournalError: it cannot be opened.
    """
    if not has_journal(stack):
        return None
    return open_journal(scaler_folder(stack), stack.world.env, stack=stack.name)


def local_now() -> datetime:
    """The time, in the zone of this machine."""
    return datetime.now(UTC).astimezone()
