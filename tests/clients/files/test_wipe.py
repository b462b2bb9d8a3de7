"""The wipe of scratch: what goes and what stays, over trees of all kinds; times are as of a clock of the test's."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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

    def round(self, now: float, **policy: Any) -> dict[str, Any]:
        self.policy |= policy
        self.report = make_round(self.policy, self.report, now, str(self.folder), lambda: self.starts)
        return self.report

    def rounds_until(self, now: float) -> dict[str, Any]:
        """The service for so long: a round each day."""
        at = now_of(self.scratch)
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
        site.round(made + 86 * DAY_S)
        site.round(made + 87.1 * DAY_S)
        assert not file.exists()


def test_a_clock_that_jumps_wipes_nothing_for_a_day() -> None:
    with a_site("ada") as site:
        file = site.scratch / "file"
        file.write_text("x")
        made = now_of(file)
        for days in range(10):
            site.round(made + days * DAY_S)
        own = site.scratch / "ada" / "own"
        own.write_text("x")
        report = site.round(made + 400 * DAY_S)
        assert own.exists()
        assert "told first" in report["why"]
        # It is put right again; and what is nobody's folder is nobody's.
        site.round(made + 11 * DAY_S)
        site.round(made + 12.1 * DAY_S)
        assert own.exists()
        assert file.exists()


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
    import subprocess

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
