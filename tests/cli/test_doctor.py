"""What `doctor` finds on this machine, and on worse ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.standins import Person
from tidepool import local
from tidepool.cli import doctor, errors
from tidepool.local import Lack


@pytest.fixture(autouse=True)
def lacks(monkeypatch: pytest.MonkeyPatch) -> list[Lack]:
    """What the machine's parts lack; nothing, and root is there."""
    found: list[Lack] = []
    monkeypatch.setattr(local, "preflight", lambda _data: tuple(found))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return found


def findings(somebody: Person) -> dict[str, doctor.Finding]:
    return {found.what: found for found in doctor.examine(somebody.world)}


def test_all_is_looked_at(somebody: Person) -> None:
    found = findings(somebody)
    assert set(found) == {
        *(command for command, _, _ in doctor.COMMANDS),
        "machines",
        "data folder",
        "engine",
        "Python",
        "package mirror",
    }
    assert found["machines"].state == "well"
    assert found["engine"].detail == "embedded"


def test_a_missing_program_is_told_with_its_package(somebody: Person, tmp_path: Path) -> None:
    bare = replace(somebody.world, env={**somebody.world.env, "PATH": str(tmp_path)})
    found = {each.what: each for each in doctor.examine(bare)}
    assert found["ip"].state == "lacks"
    assert "apt-get install iproute2" in found["ip"].remedy
    said = somebody.runs("doctor", "--json", env=bare.env)
    assert said.exit_code == errors.LACKS
    assert {each["what"] for each in json.loads(said.output) if each["state"] == "lacks"} >= {"ip", "gcc"}


def test_what_the_kernel_lacks_is_told(somebody: Person, lacks: list[Lack]) -> None:
    lacks.append(Lack("no overlay", "modprobe overlay"))
    said = somebody.runs("doctor")
    assert said.exit_code == errors.LACKS
    assert "modprobe overlay" in said.output
    lacks[:] = [Lack("little memory", "more", fatal=False)]
    assert findings(somebody)["machines"].state in ("note", "well")


def test_without_root_it_says_so_and_tries_nothing(somebody: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = findings(somebody)
    assert (found["root"].state, found["root"].remedy) == ("lacks", "sudo tidepool doctor")
    assert "machines" not in found


def test_the_engine_that_cannot_be_is_told(somebody: Person) -> None:
    for name in ("pulumi", "other"):
        env = {**somebody.world.env, "TIDEPOOL_ENGINE": name, "PATH": "/nowhere"}
        found = {each.what: each for each in doctor.examine(replace(somebody.world, env=env))}
        assert found["engine"].state == "lacks"
        assert "TIDEPOOL_ENGINE" in found["engine"].detail


MOUNTS = """\
20 1 0:1 / / rw - overlay overlay rw
21 20 0:2 / /proc rw - proc proc rw
22 20 8:1 / /data rw shared:1 - ext4 /dev/sda1 rw
23 22 0:3 / /data/a\\040b rw - tmpfs none rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "overlay"),
        ("/var", "overlay"),
        ("/data/x", "ext4"),
        ("/data/a b/c", "tmpfs"),
        ("/datax", "overlay"),
    ],
)
def test_the_file_system_of_a_folder(folder: str, kind: str) -> None:
    assert doctor._file_system(Path(folder), MOUNTS) == kind
