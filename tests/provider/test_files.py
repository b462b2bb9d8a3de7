"""The policy of people's files as Pulumi asks for it: over the agent and the service themselves, and a file system's quotas in memory."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.provider.calls import Calls, plainly
from tidepool.clients.files import files_service, quota_agent
from tidepool.clients.files.homes import HomeFolder
from tidepool.clients.here import Here
from tidepool.clients.transport import Completed
from tidepool.cluster.files import FILES_FOLDER, FILES_PROGRAM
from tidepool.provider import files

CONTROLLER = {"kind": "local", "stack": "dev", "machine": "ctl"}
MIB = 1 << 20
SCRATCH = {"path": "/scratch", "wipe_after_days": 30, "warn_days": 7}
#: The site's own project of a home, and what it limits it to.
SITE, SITE_QUOTA = 4711, 3 * MIB


class FileSystem:
    """Projects of homes, and their limits in bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.enforces = True
        self.projects: dict[int, int] = {}
        self.limits: dict[int, int] = {}
        for name, function in {
            "state_of": lambda fd: quota_agent._COUNTS | quota_agent._ENFORCES if self.enforces else 0,
            "usage_of": lambda fd, project: (self.limits.get(project, 0), 0, 0),
            "limit": lambda fd, project, quota: self.limits.__setitem__(project, quota),
            "assigned": lambda fd: self.projects.get(os.fstat(fd).st_ino, 0),
            "is_whole": lambda fd, project: self.projects.get(os.fstat(fd).st_ino) == project,
            "assign_all": lambda fd, project: self.projects.__setitem__(os.fstat(fd).st_ino, project),
            "let_go": lambda fd: self.projects.pop(os.fstat(fd).st_ino),
        }.items():
            monkeypatch.setattr(quota_agent, name, function)


class Agent:
    """Where the homes are: requests of the agent are answered in this process."""

    where = "on the file server"

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        return Completed(0, json.dumps(quota_agent.answer(json.loads(stdin))), "")

    def close(self) -> None:
        return


class Controller:
    """The machine of slurmctld: the service's program, with a folder of the test's."""

    where = "on ctl"

    def __init__(self, folder: Path) -> None:
        self._here = Here({"TIDEPOOL_FILES": str(folder)})
        self._words = {FILES_PROGRAM: files_service.__file__, "/usr/bin/python3": sys.executable}
        self._folder = folder

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        words = [self._words.get(each, each).replace(FILES_FOLDER, str(self._folder)) for each in argv]
        return self._here.run(words, stdin=stdin, timeout_s=timeout_s)

    def close(self) -> None:
        return


class Site:
    """Homes of two people, hers limited by the site itself; and the kind of resource, asked about them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.service = folder / "home", folder / "service"
        self.service.mkdir()
        for uid, name in ((2001, "ada"), (2002, "bob")):
            (self.home / name).mkdir(parents=True)
            os.chown(self.home / name, uid, uid)
        self.system = FileSystem(monkeypatch)
        self.system.projects[(self.home / "ada").stat().st_ino] = SITE
        self.system.limits[SITE] = SITE_QUOTA
        homes = HomeFolder(Agent(), str(self.home), "dev")
        monkeypatch.setattr(files, "home_folder", lambda *_: homes)
        monkeypatch.setattr(files, "transport", lambda *_: Controller(self.service))
        monkeypatch.setattr(files, "machine_is_gone", lambda *_: False)
        self.homes = homes
        self.calls = Calls(folder, "tidepool:files:Policy")

    def inputs(self, **more: Any) -> dict[str, Any]:
        return {"controller": CONTROLLER, "home": "/home", "scope": "dev", **more}

    def quotas(self) -> dict[str, int | None]:
        return {each.name: each.quota for each in self.homes.read().homes}

    def policy(self) -> Mapping[str, Any] | None:
        file = self.service / "policy.json"
        return json.loads(file.read_text()) if file.exists() else None


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def drift(site: Site, id: str | None, state: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    found = plainly(site.calls.read(str(id), state, inputs).properties)
    return {key: found[key] for key in found if found[key] != state.get(key)}


def test_a_scratch_alone_leaves_the_site_s_quotas_as_they_are(site: Site) -> None:
    inputs = site.inputs(scratch=SCRATCH)
    made = site.calls.create(inputs)
    state = plainly(made.properties)
    assert site.quotas() == {"ada": SITE_QUOTA, "bob": 0}
    assert state["quotasAre"] == "none"
    assert (site.policy() or {})["scratch"] == "/scratch"
    assert drift(site, made.resource_id, state, inputs) == {}
    site.calls.delete(str(made.resource_id), state)
    assert site.quotas() == {"ada": SITE_QUOTA, "bob": 0}
    assert site.policy() == {}


def test_one_person_s_quota_is_given_shown_when_it_drifts_and_lifted_with_it(site: Site) -> None:
    inputs = site.inputs(quotas={"bob": 5 * MIB})
    made = site.calls.create(inputs)
    state = plainly(made.properties)
    assert site.quotas() == {"ada": SITE_QUOTA, "bob": 5 * MIB}
    assert state["quotasAre"] == "enforced"
    assert site.policy() is None, "of quotas that are enforced the service has nothing to do"
    assert drift(site, made.resource_id, state, inputs) == {}

    # Somebody else's hand: at hers nobody looks, his is shown, and put back.
    site.system.limits[SITE] = 7 * MIB
    site.system.limits[quota_agent.project_of("dev", 2002)] = MIB
    assert drift(site, made.resource_id, state, inputs) == {"quotas": {"bob": MIB}}
    site.calls.update(str(made.resource_id), {**state, "quotas": {"bob": MIB}}, inputs)
    assert site.quotas() == {"ada": 7 * MIB, "bob": 5 * MIB}

    fewer = site.inputs(scratch=SCRATCH)
    state = plainly(site.calls.update(str(made.resource_id), state, fewer).properties)
    assert site.quotas() == {"ada": 7 * MIB, "bob": 0}
    assert drift(site, made.resource_id, state, fewer) == {}


def test_a_quota_of_all_takes_the_site_s_place_and_goes_when_it_is_deleted(site: Site) -> None:
    inputs = site.inputs(quota=2 * MIB, quotas={"bob": 5 * MIB})
    made = site.calls.create(inputs)
    assert site.quotas() == {"ada": 2 * MIB, "bob": 5 * MIB}
    site.calls.delete(str(made.resource_id), plainly(made.properties))
    assert site.quotas() == {"ada": 0, "bob": 0}


def test_quotas_that_the_file_system_has_none_of_are_watched_by_the_service(site: Site) -> None:
    site.system.enforces = False
    inputs = site.inputs(quota=2 * MIB)
    made = site.calls.create(inputs)
    state = plainly(made.properties)
    assert state["quotasAre"] == "watched"
    assert (site.policy() or {})["count_home"] is True
    assert drift(site, made.resource_id, state, inputs) == {}
    (site.service / "policy.json").unlink()
    assert site.calls.read(str(made.resource_id), state, inputs).resource_id is None
