"""`quota` and `scratch` of what a service on a controller found, by the service's own program."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.standins import OUTPUTS, Person
from tidepool.cli import files, homes
from tidepool.clients.files import files_service
from tidepool.clients.files.files_service import DAY_S, make_round
from tidepool.clients.files.homes import FilesService
from tidepool.clients.here import Here
from tidepool.clients.transport import Completed
from tidepool.cluster.files import FILES_PROGRAM

UID = 2001
RULE = {"path": "/scratch", "wipe_after_days": 30, "warn_days": 7}


class Controller:
    """The machine of slurmctld, whose service has the folder of a test."""

    where = "on ctl"

    def __init__(self, folder: Path) -> None:
        self._here = Here({"TIDEPOOL_FILES": str(folder)})
        self._words = {FILES_PROGRAM: files_service.__file__, "/usr/bin/python3": sys.executable}

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        return self._here.run(
            [self._words.get(each, each) for each in argv], stdin=stdin, timeout_s=timeout_s
        )

    def close(self) -> None:
        return


class Site:
    """A cluster with scratch, a home of ada's, and rounds as of a clock of the test's."""

    def __init__(self, somebody: Person, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = somebody.runs
        self.service, self.scratch, self.home = folder / "service", folder / "scratch", folder / "home"
        for each in (self.service, self.scratch, self.home):
            each.mkdir()
        (self.home / "ada").mkdir()
        os.chown(self.home / "ada", UID, UID)
        self.policy = {
            "home": str(self.home),
            "scratch": str(self.scratch),
            "count_home": False,
            "wipe_after_days": 30,
            "warn_days": 7,
            "every_s": 600,
        }
        (self.service / "policy.json").write_text(json.dumps(self.policy))
        somebody.engine.outputs = {
            **OUTPUTS,
            "files": {"scope": "dev", "quota": 0, "quotas": {}, "scratch": RULE},
        }
        for module in (files, homes):
            monkeypatch.setattr(module, "service", lambda *_: FilesService(Controller(self.service)))
        self.at = self.scratch.stat().st_ctime
        self.days(0)

    def report(self) -> Any:
        found = self.service / "report.json"
        return json.loads(found.read_text()) if found.exists() else None

    def days(self, after: float) -> None:
        """A round so many days later."""
        starts: Mapping[int, float] = {}
        found = make_round(
            self.policy, self.report(), self.at + after * DAY_S, str(self.service), lambda: starts
        )
        (self.service / "report.json").write_text(json.dumps(found))


@pytest.fixture
def site(somebody: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(somebody, tmp_path, monkeypatch)


def test_names_that_are_not_utf_8_are_shown_and_can_be_read_back(site: Site) -> None:
    name = b"caf\xe9"
    (site.scratch / "ada" / os.fsdecode(name)).write_text("x")
    for day in range(1, 25):
        site.days(day)
    said = site.runs("scratch", "--json")
    assert said.exit_code == 0, said.output
    (ada,) = json.loads(said.stdout)["people"]
    assert os.fsencode(ada["next"][0]["path"]) == name
    assert "caf\\udce9" in said.stdout


def test_what_is_left_is_told(site: Site) -> None:
    (site.scratch / "ada").rmdir()
    (site.scratch / "ada").write_text("in the way")
    (site.home / "ada").rename(site.home / os.fsdecode(b"ad\xe9"))
    (site.scratch / os.fsdecode(b"ad\xe9")).write_text("in the way")
    site.days(1)
    said = site.runs("scratch")
    assert said.exit_code == 0, said.output
    assert "of ad\\xe9 1 could not be looked at, written or deleted, and are left" in said.output
    assert "ad\\xe9: Not a directory" in said.output
    (person,) = json.loads(site.runs("scratch", "--json").stdout)["people"]
    assert (person["failed"], person["left"]) == (1, [{"path": "", "why": "Not a directory"}])


def test_a_clock_that_is_clock_wrong_is_told_and_a_person_can_say_that_it_is_right(site: Site) -> None:
    # By the service's own clock, which is right; the last rounds were by one that was 40 days behind.
    (site.service / "report.json").unlink()
    for day in range(-40, -37):
        site.days(day)
    for verb in (["scratch", "--now"], ["status"]):
        said = " ".join(site.runs(*verb).output.split())
        assert "nothing is wiped, for the clock is" in said
        assert "tidepool scratch --trust-clock" in said
    said = " ".join(site.runs("scratch", "--trust-clock").output.split())
    assert "the clock" not in said
    assert "the clock" not in site.runs("status").output
