"""The journal as a file: kills, full disks, and files that are not what they should be."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.scaling.journal.conftest import JournalLocation
from tests.scaling.journal.values import NOW, a_cluster_state, a_decision
from tidepool.cluster.hostlist import HostSet
from tidepool.scaling.journal import JOURNAL_FILE, JOURNAL_VARIABLE, open_journal
from tidepool.scaling.journal.sqlite import SqliteDatabase
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import Journal, JournalError, Kept

ROOT = Path(__file__).parents[3]
WRITER = [sys.executable, "-m", "tests.scaling.journal.writer"]


def opened(folder: Path) -> Journal:
    return open_journal(folder, {}, power_safe=False)


def written(folder: Path) -> Path:
    """A journal with something in it, closed; its file."""
    journal = opened(folder)
    lease = journal.acquire("writer", NOW, 10)
    assert lease is not None
    for _ in range(8):
        journal.decided(lease, a_cluster_state(50), Memory(), a_decision())
    journal.close()
    return folder / JOURNAL_FILE


def test_it_is_the_users_alone_with_all_that_sqlite_puts_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "stack" / "scaler"
    journal = opened(folder)
    journal.pause(None)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}
    assert modes == {"scaler": 0o700, **{f"{JOURNAL_FILE}{end}": 0o600 for end in ("", "-wal", "-shm")}}
    journal.close()
    folder.chmod(0o755)
    (folder / JOURNAL_FILE).chmod(0o644)
    opened(folder).close()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / JOURNAL_FILE)] == [0o700, 0o600]


def test_killed_in_the_middle_of_writes_it_has_all_that_was_acknowledged_and_no_half(tmp_path: Path) -> None:
    acknowledged = 0
    for kill_after in (1, 7, 20):
        with subprocess.Popen(
            [*WRITER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(kill_after):
                acknowledged, number = map(int, writer.stdout.readline().split())
            writer.kill()
        journal = opened(tmp_path)
        (last,) = journal.decisions(limit=1)
        # What came after the last word may be there too, whole.
        assert last.id >= acknowledged
        assert [each.id for each in journal.decisions(limit=1000)] == list(range(last.id, 0, -1))
        assert len(journal.open_intents()) == 3 * last.id
        assert journal.kept().desired == {"cpu": HostSet(f"cpu-[1-{number + last.id - acknowledged}]")}
        journal.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted, which needs root")
@pytest.mark.skipif(not shutil.which("unshare"), reason="not installed: util-linux")
def test_when_the_disk_is_full_it_says_so_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    script = (
        'disk=$1; out=$2; shift 2; mount -t tmpfs -o size=1m tmpfs "$disk"; '
        'head -c 300k /dev/zero >"$disk/ballast"; "$@"; cp "$disk"/journal.sqlite* "$out"'
    )
    disk, out = tmp_path / "disk", tmp_path / "out"
    disk.mkdir()
    out.mkdir()
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script, "sh", disk, out, *WRITER, disk, disk / "ballast"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *before, refusal, after = done.stdout.splitlines()
    assert refusal.startswith(
        f"refused: the journal {disk}/journal.sqlite cannot be used: the disk is full; make room"
    )
    journal = opened(out)
    # The refused one left no trace, not even its number.
    expected = [int(line.split()[0]) for line in (*before, after)]
    assert len(expected) > 3
    assert (
        [each.id for each in reversed(journal.decisions(limit=10_000))]
        == expected
        == list(range(1, len(expected) + 1))
    )
    journal.close()


@pytest.mark.parametrize("share", [0.0002, 0.3, 0.97])
def test_a_truncated_file_is_said_and_left_as_it_is(tmp_path: Path, share: float) -> None:
    file = written(tmp_path)
    os.truncate(file, int(file.stat().st_size * share))
    left = file.read_bytes()
    for _ in range(2):
        with pytest.raises(
            JournalError, match=r"is damaged, or no database .*; put back a copy, or move it aside"
        ):
            opened(tmp_path)
    assert file.read_bytes() == left


def test_a_file_that_is_no_database_is_said_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / JOURNAL_FILE
    file.write_text("a person's notes\n" * 100)
    with pytest.raises(JournalError, match="is damaged, or no database"):
        opened(tmp_path)
    assert file.read_text().startswith("a person's notes")


def test_another_programs_database_is_said_and_left_as_it_is(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / JOURNAL_FILE)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.commit()
    connection.close()
    left = (tmp_path / JOURNAL_FILE).read_bytes()
    with pytest.raises(
        JournalError, match="no journal of Tidepool's: it has the tables bookmarks; move it aside"
    ):
        opened(tmp_path)
    assert (tmp_path / JOURNAL_FILE).read_bytes() == left


def test_an_empty_file_is_a_new_journal(tmp_path: Path) -> None:
    (tmp_path / JOURNAL_FILE).touch()
    journal = opened(tmp_path)
    assert journal.kept() == Kept()
    journal.close()


def test_a_folder_in_its_place_is_said(tmp_path: Path) -> None:
    (tmp_path / JOURNAL_FILE).mkdir()
    with pytest.raises(JournalError, match="unable to open database file"):
        opened(tmp_path)


def test_a_place_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "stack").touch()
    with pytest.raises(JournalError, match="cannot be opened: Not a directory"):
        opened(tmp_path / "stack" / "scaler")


@pytest.mark.parametrize("by", ["removed", "replaced"])
def test_a_file_that_is_taken_away_while_it_is_in_use_is_said_before_anything_is_lost(
    tmp_path: Path, by: str
) -> None:
    journal = opened(tmp_path / "one")
    lease = journal.acquire("a", NOW, 10)
    assert lease is not None
    file = tmp_path / "one" / JOURNAL_FILE
    if by == "removed":
        file.unlink()
    else:
        other = written(tmp_path / "two")
        other.replace(file)
    with pytest.raises(JournalError, match="was moved away or replaced while it was in use"):
        journal.write_kept(lease, Kept())
    for path in (tmp_path / "one").glob("*-*"):
        path.unlink()
    # Then it begins anew, and a lease of the old one is worth nothing.
    with pytest.raises(JournalError, match="has the lease of the journal"):
        journal.write_kept(lease, Kept())
    journal.close()


def test_one_that_is_busy_for_too_long_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidepool.scaling.journal.sqlite.BUSY_TIMEOUT_S", 0.05)
    one, other = (SqliteDatabase(tmp_path / JOURNAL_FILE, power_safe=False) for _ in range(2))
    began, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with one.writing():
            began.set()
            may_end.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    began.wait()
    try:
        with pytest.raises(JournalError, match="another process writes"), other.writing():
            pass
    finally:
        may_end.set()
        holder.join()
    with other.writing() as sql:
        assert sql.change("UPDATE lease SET epoch = epoch") == 1
    for database in (one, other):
        database.close()


def test_writes_are_on_disk_before_they_return_but_for_what_may_be_lost(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / JOURNAL_FILE)
    # 2 is FULL: a write-ahead log is synchronised at each commit. 1 is NORMAL: at checkpoints.
    for durable, synchronous in ((True, 2), (False, 1)):
        with database.writing(durable=durable) as sql:
            assert sql.run("PRAGMA synchronous") == [(synchronous,)]
            assert sql.run("PRAGMA journal_mode") == [("wal",)]
    database.close()


def test_an_address_of_another_kind_is_refused_without_being_shown(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="TIDEPOOL_JOURNAL names no database that is known") as caught:
        open_journal(tmp_path, {JOURNAL_VARIABLE: "mysql://me:secret@there/db"})
    assert "secret" not in str(caught.value)
    assert not (tmp_path / JOURNAL_FILE).exists()


def test_without_an_address_it_is_a_file(in_file: JournalLocation, tmp_path: Path) -> None:
    open_journal(tmp_path, {JOURNAL_VARIABLE: " "}).close()
    assert (tmp_path / JOURNAL_FILE).exists()
