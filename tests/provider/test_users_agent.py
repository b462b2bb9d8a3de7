"""The agent that writes users: homes, keys, and files that are whole at all times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidepool.cluster.user_files import homes, user_files
from tidepool.provider import users_agent

ADA, GRACE = {"uid": 30001, "keys": ["ssh-ed25519 ada"]}, {"uid": 30002}


def write(home: Path, **users: Any) -> dict[str, Any]:
    files = user_files(users, {})
    request = {"folder": str(home / ".tidepool"), "homes": str(home), "files": files, "users": homes(users)}
    done = subprocess.run(
        [sys.executable, "-ISc", Path(users_agent.__file__).read_text()],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_who_comes_has_a_home_of_their_own_and_who_goes_leaves_it(tmp_path: Path) -> None:
    files = write(tmp_path, ada=ADA, grace=GRACE)["files"]
    assert sorted(files) == ["group", "keys/ada", "passwd"]
    assert [
        (each.stat().st_uid, each.stat().st_mode & 0o777) for each in (tmp_path / "ada", tmp_path / "grace")
    ] == [
        (30001, 0o700),
        (30002, 0o700),
    ]
    (tmp_path / "ada" / "thesis").write_text("years")
    assert sorted(write(tmp_path, grace=GRACE)["files"]) == ["group", "passwd"]
    assert (tmp_path / "ada" / "thesis").read_text() == "years"
    # Back again, to the same home.
    write(tmp_path, ada=ADA, grace=GRACE)
    assert (tmp_path / "ada" / "thesis").read_text() == "years"


@pytest.mark.parametrize(
    ("users", "word"),
    [
        ({"ada": {"uid": 30009}}, "belongs to the uid 30001, and ada has 30009"),
        ({"eve": ADA}, "eve has the uid 30001, to which"),
    ],
)
def test_nobody_gets_the_files_of_another(tmp_path: Path, users: dict[str, Any], word: str) -> None:
    before = write(tmp_path, ada=ADA)["files"]
    assert word in write(tmp_path, **users)["error"]
    assert users_agent.read(str(tmp_path / ".tidepool")) == before
    assert sorted(each.name for each in tmp_path.iterdir()) == [".tidepool", "ada"]


def test_one_that_was_cut_off_is_done_again(tmp_path: Path) -> None:
    half = tmp_path / ".ada.new"
    half.mkdir()
    (half / "half").touch()
    (tmp_path / ".tidepool").mkdir()
    (tmp_path / ".tidepool" / ".new").write_text("ada:*:")
    files = write(tmp_path, ada=ADA)["files"]
    assert sorted(files) == ["group", "keys/ada", "passwd"]
    assert not half.exists()
    assert {*os.listdir(tmp_path / "ada")} == {*os.listdir("/etc/skel")}  # noqa: PTH208 (names)
