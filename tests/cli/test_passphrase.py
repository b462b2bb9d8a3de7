"""The passphrase of a stack's secrets where several people administrate: each has the same, and nobody makes a second one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engine.shared import Place, in_folder, in_postgres, in_s3, place  # noqa: F401 - fixtures
from tests.objectstore import objectstore  # noqa: F401
from tests.postgres import postgres  # noqa: F401
from tidepool.cli.errors import Failure
from tidepool.cli.passphrase import VARIABLE, ensure_passphrase


def test_all_who_come_at_once_have_the_same(place: Place, tmp_path: Path) -> None:  # noqa: F811
    env = {VARIABLE: place.url, **place.env}
    mine = [tmp_path / str(number) / "passphrase" for number in range(3)]
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda path: ensure_passphrase(path, env, "s3://state"), mine))
    (one,) = {path.read_bytes() for path in mine}
    assert len(one) > 32
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in mine)
    # One that is changed for all is taken by each.
    bucket = place.bucket()
    bucket.write(bucket.root / "passphrase", b"another\n")
    ensure_passphrase(mine[0], env, "s3://state")
    assert mine[0].read_bytes() == b"another\n"


def test_who_had_one_shares_it(in_folder: Place, tmp_path: Path) -> None:  # noqa: F811
    before, new = tmp_path / "before", tmp_path / "new"
    before.write_text("old\n")
    for path in (before, new):
        ensure_passphrase(path, {VARIABLE: in_folder.url}, "s3://state")
    assert before.read_text() == new.read_text() == "old\n"


def test_of_a_shared_state_nobody_makes_one_for_himself(tmp_path: Path) -> None:
    path = tmp_path / "passphrase"
    with pytest.raises(Failure, match=r"the state is in postgres://db/x, .* no passphrase") as caught:
        ensure_passphrase(path, {}, "postgres://me@db/x")
    assert f"{VARIABLE}=s3://" in caught.value.remedy
    assert f"copy {path} from where the stack was made" in caught.value.remedy
    assert not path.exists()
    ensure_passphrase(path, {}, "file:///somewhere")
    made = path.read_bytes()
    ensure_passphrase(path, {}, "postgres://me@db/x")
    assert path.read_bytes() == made
