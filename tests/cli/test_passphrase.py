"""The passphrase of a stack's secrets where several people administrate: each has the same, and nobody makes a second one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engine.shared import Place, in_folder, in_postgres, in_s3, place  # noqa: F401 - fixtures
from tests.objectstore import objectstore  # noqa: F401
from tests.postgres import postgres  # noqa: F401
from tidepool.cli.engine import engine_settings, prepare
from tidepool.cli.errors import Failure
from tidepool.cli.passphrase import VARIABLE, ensure_passphrase, passphrase_file


def test_all_who_come_at_once_have_the_same(place: Place, tmp_path: Path) -> None:  # noqa: F811
    env = {VARIABLE: place.url, **place.env}
    folders = [tmp_path / str(number) for number in range(3)]
    for each in folders:
        each.mkdir()
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda data: ensure_passphrase(data, env, "s3://state"), folders))
    mine = [passphrase_file(data, env) for data in folders]
    (one,) = {path.read_bytes() for path in mine}
    assert len(one) > 32
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in mine)
    # One that is changed for all is taken by each.
    bucket = place.bucket()
    bucket.write(bucket.root / "passphrase", b"another\n")
    ensure_passphrase(folders[0], env, "s3://state")
    assert mine[0].read_bytes() == b"another\n"


def test_who_had_one_shares_it_and_nobody_loses_theirs(in_folder: Place, tmp_path: Path) -> None:  # noqa: F811
    env = {VARIABLE: in_folder.url}
    first, new, late = (tmp_path / name for name in ("first", "new", "late"))
    for each in (first, new, late):
        each.mkdir()
    (first / "passphrase").write_text("hers\n")
    (late / "passphrase").write_text("his, of other stacks\n")
    for each in (first, new, late):
        ensure_passphrase(each, env, "s3://state")
        assert passphrase_file(each, env).read_text() == "hers\n"
    assert (late / "passphrase").read_text() == "his, of other stacks\n"
    assert passphrase_file(late, {}).read_text() == "his, of other stacks\n", (
        "without the variable it is his again"
    )


@pytest.mark.parametrize("given", ["PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"])
def test_one_that_a_person_gives_wins(given: str, in_folder: Place, tmp_path: Path) -> None:  # noqa: F811
    own = tmp_path / "passphrase"
    own.write_text("mine\n")
    env = {VARIABLE: in_folder.url, given: str(own) if given.endswith("FILE") else ""}
    settings = engine_settings(env, tmp_path)
    assert "PULUMI_CONFIG_PASSPHRASE_FILE" not in settings
    prepare(settings, tmp_path, {**env, **settings}, "s3://state")
    assert own.read_text() == "mine\n"
    assert not in_folder.bucket().names(in_folder.bucket().root), "nobody was asked for another"


def test_of_a_shared_state_nobody_makes_one_for_himself(tmp_path: Path) -> None:
    path = tmp_path / "passphrase"
    with pytest.raises(Failure, match=r"the state is in postgres://db/x, .* no passphrase") as caught:
        ensure_passphrase(tmp_path, {}, "postgres://me@db/x")
    assert f"{VARIABLE}=s3://" in caught.value.remedy
    assert f"copy {path} from where the stack was made" in caught.value.remedy
    assert not path.exists()
    ensure_passphrase(tmp_path, {}, "file:///somewhere")
    made = path.read_bytes()
    ensure_passphrase(tmp_path, {}, "postgres://me@db/x")
    assert path.read_bytes() == made
