"""The wipe of scratch: what goes and what stays, over trees of all kinds; times are as of a clock of the test's."""

from __future__ import annotations

import errno
import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import runs
from tidepool.clients.files import files_service
from tidepool.clients.files.files_service import DAY_S, SOON, last_used, make_round

ADA = 2001
POLICY: Mapping[str, Any] = {
    "home": "",
    "scratch": "",
    "count_home": False,
    "wipe_after_days": 30,
    "warn_days": 7,
    "every_s": 600,
}


class Site:
    """Homes of people, a scratch, and the service's folder; ``ran`` are rounds that were made."""

    def __init__(self, folder: Path, *people: str, **policy: Any) -> None:
        self.folder, self.scratch, self.home = folder, folder / "scratch", folder / "home"
        self.outside = folder / "outside"
        for each in (self.scratch, self.home, self.outside):
            each.mkdir()
        for uid, name in enumerate(people, ADA):
            (self.home / name).mkdir(0o700)
            os.chown(self.home / name, uid, uid)
        self.policy = {**POLICY, "home": str(self.home), "scratch": str(self.scratch), **policy}
        self.report: dict[str, Any] | None = None
        self.starts: Mapping[int, float] = {}
        #: The boot of the kernel, and how long it runs.
        self.up = ("boot", 0.0)

    def round(self, now: float, *, trust_clock: bool = False, **policy: Any) -> dict[str, Any]:
        self.policy |= policy
        self.report = make_round(
            self.policy,
            self.report,
            now,
            str(self.folder),
            lambda: self.starts,
            up=self.up,
            trust_clock=trust_clock,
        )
        # As the service keeps it.
        self.report = json.loads(json.dumps(self.report))
        return self.report

    def rounds_until(self, now: float) -> dict[str, Any]:
        """The service for so long: a round each day."""
        return self.rounds_from(now_of(self.scratch), now)

    def rounds_from(self, at: float, now: float) -> dict[str, Any]:
        while at < now:
            self.round(at)
            at += DAY_S
        return self.round(now)


@contextmanager
def a_site(*people: str, **policy: Any) -> Iterator[Site]:
    with tempfile.TemporaryDirectory() as folder:
        yield Site(Path(folder), *people, **policy)


def now_of(folder: Path) -> float:
    return folder.stat().st_ctime


# A name, and what it is: a file, a link outside, a hard link to a file outside, or a folder of more.
NAMES = st.binary(min_size=1, max_size=12).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")
)
TREES = st.recursive(
    st.dictionaries(NAMES, st.sampled_from(["file", "link", "hard", "pipe"]), max_size=4),
    lambda inner: st.dictionaries(NAMES, st.one_of(inner, st.just("file"), st.just("link")), max_size=4),
    max_leaves=12,
)


def plant(folder: Path, tree: Mapping[bytes, Any], outside: Path) -> int:
    made = 0
    for name, what in tree.items():
        path = folder / os.fsdecode(name)
        made += 1
        match what:
            case "file":
                path.write_text("x")
            case "link":
                path.symlink_to(outside)
            case "hard":
                os.link(outside / "kept", path)
            case "pipe":
                os.mkfifo(path)
            case _:
                path.mkdir()
                made += plant(path, what, outside)
    return made


@runs(60)
@given(tree=TREES, days=st.integers(0, 60))
def test_all_that_is_old_goes_and_nothing_else(tree: Mapping[bytes, Any], days: int) -> None:
    with a_site("ada") as site:
        (site.outside / "kept").write_text("outside")
        site.round(now_of(site.scratch))
        made = plant(site.scratch / "ada", tree, site.outside)
        found = site.rounds_until(now_of(site.scratch) + days * DAY_S)["scratch"]["ada"]
        left = sum(len(folders) + len(names) for _, folders, names in os.walk(site.scratch / "ada"))
        assert found["failed"] == 0
        if days < 30:
            assert left == made
        elif days > 31:
            assert left == 0
            assert (site.scratch / "ada").is_dir()
        # Nothing is followed, and nothing outside is touched.
        assert (site.outside / "kept").read_text() == "outside"
        assert [each.name for each in site.outside.iterdir()] == ["kept"]
        log = [json.loads(line) for line in (site.folder / "wiped.log").read_text().splitlines()]
        assert len(log) == made - left
        assert all(each["person"] == "ada" for each in log)


def test_a_file_that_is_read_stays_though_a_kernel_writes_down_one_read_a_day() -> None:
    with a_site("ada") as site:
        site.round(now_of(site.scratch))
        read, written = site.scratch / "ada" / "read", site.scratch / "ada" / "written"
        read.write_text("x")
        written.write_text("x")
        made = now_of(read)
        os.utime(read, (made + 20 * DAY_S, made))  # by whoever reads it
        site.rounds_until(made + 31 * DAY_S)
        assert read.exists()
        assert not written.exists()
        site.rounds_until(made + 50.5 * DAY_S)
        assert read.exists(), "it may have been read up to a day later"
        site.rounds_until(made + 51.5 * DAY_S)
        assert not read.exists()


def test_a_time_in_the_future_keeps_nothing() -> None:
    with a_site("ada") as site:
        site.round(now_of(site.scratch))
        file = site.scratch / "ada" / "for-ever"
        file.write_text("x")
        os.utime(file, (2**33, 2**33))
        site.rounds_until(now_of(file) + 31 * DAY_S)
        assert not file.exists()


def test_people_are_told_before_and_a_new_rule_waits_for_it() -> None:
    with a_site("ada", "bob", wipe_after_days=90) as site:
        site.round(now_of(site.scratch))
        file = site.scratch / "ada" / "result.dat"
        file.write_bytes(b"x" * 5000)
        made = now_of(file)
        found = site.rounds_until(made + 84 * DAY_S)["scratch"]["ada"]
        assert (found["soon"], found["first"][0][0]) == (1, "result.dat")
        assert found["next_at"] == pytest.approx(made + 90 * DAY_S)
        told = site.scratch / SOON / "ada"
        assert "result.dat" in told.read_text()
        assert (told.stat().st_uid, told.stat().st_mode & 0o777) == (ADA, 0o400)
        # A shorter time: nothing goes before people were told for as long as the rule says.
        for days in range(7):
            report = site.round(made + (84 + days / 10) * DAY_S, wipe_after_days=10, warn_days=3)
            assert file.exists(), report
        assert report["scratch"]["ada"]["next_at"] == pytest.approx(made + 87 * DAY_S)
        for later in (85.5, 86.4, 87.1):
            site.round(made + later * DAY_S)
        assert not file.exists()


def test_by_a_clock_that_jumped_nothing_goes_however_long_it_stays_so() -> None:
    with a_site("ada") as site:
        file = site.scratch / "file"
        file.write_text("x")
        made = now_of(file)
        for days in range(10):
            site.round(made + days * DAY_S)
        own = site.scratch / "ada" / "own"
        own.write_text("x")
        for days in range(400, 440):
            report = site.round(made + days * DAY_S)
            assert own.exists()
            assert report["is_clock_wrong"]
            assert "the clock is" in report["why"]
        # It is put right, and all goes on by itself; what is nobody's folder is nobody's.
        for days in range(10, 30):
            report = site.round(made + days * DAY_S)
            assert report["why"] == ""
            assert own.exists()
        site.rounds_from(made + 30 * DAY_S, made + 30.1 * DAY_S)
        assert not own.exists()
        assert file.exists()


def test_a_clock_that_went_back_is_no_better() -> None:
    with a_site("ada") as site:
        made = now_of(site.scratch)
        # The first rounds were by a clock that was a year ahead.
        for days in range(375, 377):
            site.round(made + days * DAY_S)
        own = site.scratch / "ada" / "own"
        own.write_text("x")
        report = site.round(made + 2 * DAY_S)
        assert "the clock is 374.0 days from" in report["why"]
        report = site.round(made + 2.5 * DAY_S, trust_clock=True)
        assert report["why"] == "nothing is wiped yet: people are told first"
        found = site.rounds_from(made + 3 * DAY_S, made + 32 * DAY_S)
        assert found["why"] == ""
        assert not own.exists()


def test_days_without_a_round_are_known_where_the_kernel_ran_and_else_a_person_says_so() -> None:
    with a_site("ada") as site:
        made = now_of(site.scratch)
        site.round(made)
        own = site.scratch / "ada" / "own"
        own.write_text("x")
        for days in range(1, 9):
            site.round(made + days * DAY_S)
        # The service did not run for 20 days, and the kernel did.
        site.up = ("boot", 20 * DAY_S)
        assert site.round(made + 28 * DAY_S)["why"] == ""
        # The machine was off for a week: who could tell that from a clock that jumped?
        site.up = ("another boot", 0.0)
        assert "the clock is 7.0 days from" in site.round(made + 35 * DAY_S)["why"]
        site.up = ("another boot", 5 * DAY_S)
        assert "the clock is 7.0 days from" in site.round(made + 40 * DAY_S)["why"]
        assert own.exists()
        report = site.round(made + 40 * DAY_S, trust_clock=True)
        assert own.exists(), "for a day people can read what goes"
        assert own.name in (site.scratch / SOON / "ada").read_text()
        assert report["quiet_until"] == made + 41 * DAY_S
        site.round(made + 40.9 * DAY_S)
        assert own.exists()
        assert site.round(made + 41.1 * DAY_S)["why"] == ""
        assert not own.exists()


def test_what_a_running_job_may_use_stays_and_nothing_goes_where_slurm_does_not_say() -> None:
    with a_site("ada", "bob") as site:
        site.round(now_of(site.scratch))
        for name in ("ada", "bob"):
            (site.scratch / name / "input").write_text("x")
        made = now_of(site.scratch / "ada" / "input")
        # Of hers runs one that is older than the file; of his one that began when the file was old already.
        site.starts = {ADA: made - 5, ADA + 1: made + 29 * DAY_S}
        found = site.rounds_until(made + 40 * DAY_S)["scratch"]
        assert (site.scratch / "ada" / "input").exists()
        assert found["ada"]["held_by_jobs"] == 1
        assert not (site.scratch / "bob" / "input").exists()

        def silent() -> Mapping[int, float]:
            raise OSError("slurmctld does not answer")

        site.starts = {}
        report = make_round(site.policy, site.report, made + 40.5 * DAY_S, str(site.folder), silent)
        assert (site.scratch / "ada" / "input").exists()
        assert "slurmctld does not answer" in report["why"]
        site.round(made + 41 * DAY_S)
        assert not (site.scratch / "ada" / "input").exists()


def test_another_file_system_in_a_folder_is_not_entered() -> None:
    with a_site("ada", count_home=True) as site:
        site.round(now_of(site.scratch))
        made = now_of(site.scratch)
        inner = site.scratch / "ada" / "shm"
        inner.mkdir()
        if Path("/dev/shm").stat().st_dev == site.scratch.stat().st_dev:
            pytest.skip("/dev/shm is on the same file system")
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file, mounted("/dev/shm", inner):
            site.rounds_until(made + 60 * DAY_S)
            assert Path(file.name).exists()


@contextmanager
def mounted(source: str, target: Path) -> Iterator[None]:
    subprocess.run(["mount", "--bind", source, str(target)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(target)], check=True)


def test_a_folder_that_somebody_else_has_in_the_way_is_not_given_away() -> None:
    with a_site("ada", "bob") as site:
        (site.scratch / "ada").symlink_to(site.outside)
        assert site.round(now_of(site.scratch))["scratch"]["ada"]["failed"] == 1
        assert site.outside.stat().st_uid == 0
        assert (site.scratch / "bob").stat().st_uid == ADA + 1, "others have theirs"


def test_a_scratch_that_is_full_is_wiped_all_the_same() -> None:
    with a_site("ada", "bob", "cleo") as site, small(site.scratch, "64k", 40):
        made = now_of(site.scratch)
        for name, uid in (("ada", ADA), ("bob", ADA + 1)):
            own_folder(site.scratch, name, uid)
        (site.scratch / "ada" / "old").write_text("x")
        fill(site.scratch / "bob" / "all")
        for days in range(8):
            found = site.round(made + days * DAY_S)["scratch"]
        assert found["bob"]["files"] > 1
        assert found["cleo"]["left"][0] == ["", "No space left on device"]
        assert [f"{SOON}/ada", "No space left on device"] in found["ada"]["left"]
        site.rounds_from(made + 8 * DAY_S, made + 31 * DAY_S)
        assert not (site.scratch / "ada" / "old").exists()
        assert (site.scratch / "cleo").stat().st_uid == ADA + 2, "there is room for her"


def test_what_cannot_be_written_down_does_not_go() -> None:
    with a_site("ada", "bob") as site:
        made = now_of(site.scratch)
        site.round(made)
        for name in ("ada", "bob"):
            (site.scratch / name / "old").write_text("x")
        site.rounds_from(made, made + 29 * DAY_S)
        service = site.folder
        site.folder = service / "full"
        site.folder.mkdir()
        with small(site.folder, "64k", 20):
            (site.folder / "wiped.log").write_text("")
            fill(site.folder / "state")
            found = site.rounds_from(made + 30 * DAY_S, made + 31 * DAY_S)["scratch"]
            assert {name: [each["wiped"], each["failed"]] for name, each in found.items()} == {
                "ada": [0, 1],
                "bob": [0, 1],
            }
            assert (site.scratch / "ada" / "old").exists()
            assert (site.folder / "wiped.log").read_text() == ""
            (site.folder / "state").unlink()
            assert site.round(made + 31.1 * DAY_S)["scratch"]["bob"]["wiped"] == 1
            assert len((site.folder / "wiped.log").read_text().splitlines()) == 2


def test_what_cannot_be_deleted_is_told_and_not_written_down_as_gone() -> None:
    with a_site("ada") as site:
        made = now_of(site.scratch)
        site.round(made)
        stays, goes = site.scratch / "ada" / "stays", site.scratch / "ada" / "goes"
        for each in (stays, goes):
            each.write_text("x")
        try:
            subprocess.run(["chattr", "+i", str(stays)], check=True, capture_output=True)
        except subprocess.CalledProcessError:
            pytest.skip("the file system has no files that cannot be deleted")
        try:
            found = site.rounds_until(made + 31.5 * DAY_S)["scratch"]["ada"]
        finally:
            subprocess.run(["chattr", "-i", str(stays)], check=True)
        assert found["left"] == [["stays", "Operation not permitted"]]
        assert not goes.exists()
        log = [json.loads(line)["path"] for line in (site.folder / "wiped.log").read_text().splitlines()]
        assert log == ["goes"]


class Unreadable:
    """A disk that cannot read some folders, by their inodes: the calls that read one fail, as the kernel's do then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
        self._inodes = {each.stat().st_ino for each in folders}
        self._scandir, self._stat = os.scandir, os.stat
        monkeypatch.setattr(os, "scandir", self.scandir)

    def scandir(self, fd: Any) -> Any:
        if self._stat(fd).st_ino in self._inodes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self._scandir(fd)


def test_a_folder_that_cannot_be_read_keeps_nobody_from_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_site("ada", "bob", "cleo", count_home=True) as site:
        made = now_of(site.scratch)
        site.round(made)
        bad = [
            site.scratch / "ada",
            site.home / "ada",
            site.scratch / "bob" / "bad",
            site.home / "bob" / "bad",
        ]
        for each in bad:
            each.mkdir(exist_ok=True)
        for name in ("ada", "bob", "cleo"):
            (site.scratch / name / "old").write_text("x")
            (site.home / name / "file").write_text("x")
        with monkeypatch.context() as patched:
            Unreadable(patched, *bad)
            report = site.rounds_until(made + 31.5 * DAY_S)
        assert [(site.scratch / name / "old").exists() for name in ("ada", "bob", "cleo")] == [
            True,
            False,
            False,
        ]
        why = "Input/output error"
        assert report["scratch"]["ada"]["left"] == [["", why]]
        assert report["scratch"]["bob"]["left"] == [["bad", why]]
        assert report["home"]["ada"]["left"] == [["", why]]
        assert report["home"]["bob"]["left"] == [["bad", why]]
        assert (report["home"]["bob"]["files"], report["home"]["cleo"]["files"]) == (2, 1)


def test_homes_are_counted_where_there_is_no_scratch_to_be_had() -> None:
    with a_site("ada", count_home=True) as site:
        site.scratch.rmdir()
        report = site.round(now_of(site.home))
        assert report["home"]["ada"]["files"] == 0
        assert f"nothing is wiped: [Errno 2] No such file or directory: '{site.scratch}'" in report["why"]


def test_homes_that_cannot_be_had_are_told_and_a_notice_stays() -> None:
    with a_site("ada") as site:
        made = now_of(site.scratch)
        away = site.home.rename(site.folder / "away")
        report = site.round(made)
        assert "nothing is looked at: [Errno 2] No such file or directory" in report["why"]
        assert report["quiet_until"] == made + 7 * DAY_S
        away.rename(site.home)
        assert site.round(made + DAY_S)["quiet_until"] == made + 7 * DAY_S


def own_folder(scratch: Path, name: str, uid: int) -> None:
    (scratch / name).mkdir(0o700)
    os.chown(scratch / name, uid, uid)


def fill(file: Path) -> None:
    """Have the file system of a file without room: for its content, and for names."""
    with suppress(OSError), file.open("wb", buffering=0) as opened:
        while True:
            opened.write(b"x" * 1024)
    for number in itertools.count():
        try:
            file.with_name(f"{file.name}-{number}").mkdir()
        except OSError:
            return


@contextmanager
def small(folder: Path, size: str, names: int) -> Iterator[None]:
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes={names}", "none", str(folder)], check=True
    )
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_homes_are_counted_with_each_file_once_and_by_folder() -> None:
    with a_site("ada", "bob", count_home=True, scratch=None) as site:
        (site.home / "ada" / "deep").mkdir()
        (site.home / "ada" / "deep" / "file").write_bytes(b"x" * 100_000)
        os.link(site.home / "ada" / "deep" / "file", site.home / "ada" / "again")
        (site.home / "ada" / "away").symlink_to("/usr")
        found = site.round(now_of(site.home))["home"]
        assert 100_000 <= found["ada"]["bytes"] < 120_000
        assert found["ada"]["files"] == 4
        assert found["bob"]["files"] == 0


def test_a_round_is_made_when_it_is_due_and_seldom_where_it_takes_long(tmp_path: Path) -> None:
    report = {"at": 1000.0, "took_s": 1.0, "policy": dict(POLICY)}
    assert not files_service.is_due(POLICY, report, 1599)
    assert files_service.is_due(POLICY, report, 1600)
    assert not files_service.is_due(POLICY, {**report, "took_s": 100.0}, 2999)
    assert files_service.is_due(POLICY, {**report, "took_s": 100.0}, 3000)
    assert files_service.is_due({**POLICY, "warn_days": 1}, report, 1001)
    assert files_service.is_due(POLICY, None, 0)


def test_last_used_never_lies_before_a_use() -> None:
    def stat(atime: float, mtime: float, ctime: float) -> os.stat_result:
        return os.stat_result(
            (0o100644, 1, 1, 1, 0, 0, 0, 0, 0, 0), {"st_atime": atime, "st_mtime": mtime, "st_ctime": ctime}
        )

    assert last_used(stat(5, 5, 5), 100) == 5
    assert last_used(stat(50, 5, 5), DAY_S * 9) == 50 + DAY_S
    assert last_used(stat(50, 5, 5), 60) == 60
    assert last_used(stat(2e9, 2e9, 5), 100) == 5
