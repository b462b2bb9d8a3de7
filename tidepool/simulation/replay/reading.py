"""Reads a trace: a file of the Standard Workload Format, packed with gzip or not, or a journal."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import Final, TextIO

from tidepool.simulation.replay.recorded import read_recorded
from tidepool.simulation.replay.swf import read_swf
from tidepool.simulation.replay.trace import Trace, TraceError

_GZIP: Final = b"\x1f\x8b"
_SQLITE: Final = b"SQLite format 3\0"


def read_trace(path: Path) -> Trace:
    """The trace in the file ``path``; what it is shows in its first bytes.

    Raises:
        TraceError: it cannot be read, or holds no job.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE))
        if head == _SQLITE:
            return _journal(path)
        with _unpacked(path, head.startswith(_GZIP)) as lines:
            trace = read_swf(lines)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: it is packed with gzip, and damaged: {error}") from error
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from error
    if not trace.jobs:
        broken = (
            f": {len(trace.broken)} lines are broken, the first is {trace.broken[0]}" if trace.broken else ""
        )
        raise TraceError(
            f"{path}: no job in it{broken}; a trace is in the Standard Workload Format, or a journal of the scaler's"
        )
    return trace


def _unpacked(path: Path, is_gzip: bool) -> TextIO:
    if is_gzip:
        return io.TextIOWrapper(gzip.GzipFile(path), errors="replace")
    return path.open(errors="replace")


def _journal(path: Path) -> Trace:
    from tidepool.scaling.journal.journal import SqlJournal
    from tidepool.scaling.journal.sqlite import SqliteDatabase
    from tidepool.scaling.ports import JournalError

    try:
        journal = SqlJournal(SqliteDatabase(path))
        try:
            return read_recorded(journal.jobs())
        finally:
            journal.close()
    except JournalError as error:
        raise TraceError(str(error)) from error
