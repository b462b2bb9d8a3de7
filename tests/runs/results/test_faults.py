"""Places of results that fail: busy servers, lines that are cut, slow ones, and what is full."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.faulty_line import Fault, FaultyLine, faulty_line
from tests.objectstore import ObjectStore
from tests.runs.results.sources import LARGE, MemorySource
from tests.runs.results.test_records import AT, RUN
from tests.toolchain import needs_objectstore
from tidepool.engine.state import s3_calls
from tidepool.runs.ports import Refused, RunError
from tidepool.runs.record import Output
from tidepool.runs.results import open_store
from tidepool.runs.results.records import StoredRecords
from tidepool.runs.results.store import Store
from tidepool.runs.results.transfer import spoiled, upload_all

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, which takes root")
_numbers = count(1)


@pytest.fixture
def line(objectstore: ObjectStore) -> Iterator[FaultyLine]:
    with faulty_line(
        ("127.0.0.1", objectstore.port), socket.AF_INET, (b"GET", b"PUT", b"POST", b"HEAD")
    ) as opened:
        yield opened


@pytest.fixture
def stores(objectstore: ObjectStore, line: FaultyLine) -> Iterator[tuple[Store, Store]]:
    """One place, over the line that fails and straight."""
    folder = f"faults-{next(_numbers)}"
    both = tuple(
        open_store(objectstore.url(folder, port), objectstore.environment) for port in (line.port, None)
    )
    yield both[0], both[1]
    for each in both:
        each.close()


@pytest.mark.slow
@needs_objectstore
@pytest.mark.parametrize("fault", ["busy", "cut", "lost", "half", "slow"])
def test_a_fault_of_the_line_at_any_request_of_an_upload_delays_it(
    line: FaultyLine, stores: tuple[Store, Store], fault: Fault
) -> None:
    faulty, straight = stores
    # Those of an upload: is it there, is one begun, begin, which parts are there, three parts, the end.
    for number in range(8) if fault in ("cut", "lost") else (2, 5, 7):
        line.faults.extend([*([None] * number), fault])
        name = f"{fault}-{number}"
        faulty.upload(name, MemorySource(LARGE), lambda _: None)
        line.faults.clear()
        assert straight.sha256(name) == MemorySource(LARGE).sha256
        # One whose beginning was not answered was begun twice; what is left of it is taken away.
        straight.abandon(name)
        assert straight.unfinished("") == []


@pytest.mark.slow
@needs_objectstore
@pytest.mark.parametrize("fault", ["busy", "cut", "lost"])
def test_a_small_file_over_a_line_that_fails_is_there_once(
    line: FaultyLine, stores: tuple[Store, Store], fault: Fault
) -> None:
    faulty, straight = stores
    for number in range(3):
        line.faults.extend([*([None] * number), fault])
        faulty.upload(f"{fault}-{number}", MemorySource(b"small"), lambda _: None)
        assert faulty.write_new(f"claim-{fault}-{number}", b"mine")
        line.faults.clear()
        assert straight.read(f"{fault}-{number}") == b"small"


@pytest.mark.slow
@needs_objectstore
def test_a_server_that_is_away_is_told_and_what_was_begun_goes_on_when_it_is_back(
    line: FaultyLine, stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_calls, "_TRIED_FOR_S", 0.2)
    monkeypatch.setattr(s3_calls, "_TRIED_AFTER_THAT_FOR_S", 0.2)
    faulty, straight = stores
    cut: list[Fault | None] = ["cut"] * 200
    line.faults.extend([None] * 4 + cut)
    with pytest.raises(RunError, match="see whether the server runs and is reached from here"):
        faulty.upload("x", MemorySource(LARGE), lambda _: None)
    line.faults.clear()
    assert faulty.upload("x", MemorySource(LARGE), lambda _: None)
    assert straight.sha256("x") == MemorySource(LARGE).sha256


@pytest.mark.slow
@needs_objectstore
@is_root
def test_a_full_bucket_is_told_at_once_and_goes_on_when_there_is_room() -> None:
    server = ObjectStore(most_mib=12)
    try:
        store = open_store(server.url("full"), server.environment)
        with pytest.raises(
            RunError, match=r"InsufficientStorage: .*; make room there, or have the quota raised"
        ):
            store.upload("x", MemorySource(LARGE), lambda _: None)
        assert store.names("") == []
        server.resize(100)
        assert store.upload("x", MemorySource(LARGE), lambda _: None)
        assert store.sha256("x") == MemorySource(LARGE).sha256
        store.close()
    finally:
        server.close()


@pytest.mark.slow
@needs_objectstore
def test_a_bucket_that_is_not_there_or_not_ours_is_found_first(objectstore: ObjectStore) -> None:
    url = objectstore.url("x")
    with pytest.raises(Refused, match=r"NoSuchBucket: .*; make the bucket, or mend its name"):
        open_store(url.replace("//tests/", "//nix/"), objectstore.environment).check()
    wrong = {**objectstore.environment, "AWS_SECRET_ACCESS_KEY": "other"}
    with pytest.raises(Refused, match="give credentials that may do it"):
        open_store(url, wrong).check()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


@is_root
def test_a_full_folder_is_told_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    store = open_store(small_disk.as_uri(), {})
    with pytest.raises(RunError, match="x cannot be written: No space left on device; make room there"):
        store.upload("x", MemorySource(LARGE), lambda _: None)
    assert store.names("") == []
    assert store.unfinished("") == ["x"]
    subprocess.run(["mount", "-o", "remount,size=100m", small_disk], check=True)
    source = MemorySource(LARGE)
    assert store.upload("x", source, lambda _: None)
    assert 0 not in source.reads  # what was there is not read again
    assert store.sha256("x") == source.sha256


@is_root
def test_a_folder_that_may_not_be_written_is_found_first(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(Refused, match="Read-only file system; the file system is read-only"):
        open_store(small_disk.as_uri(), {}).check()
    with pytest.raises(Refused, match="is no folder that is there; make it, or name another place"):
        open_store((small_disk / "nix").as_uri(), {}).check()


def test_what_is_not_mounted_now_is_not_written_to_what_is_behind_it(tmp_path: Path) -> None:
    store = open_store((tmp_path / "share").as_uri(), {})
    calls: list[Callable[[], object]] = [
        lambda: store.write("x", b""),
        lambda: store.upload("x", MemorySource(b"x"), lambda _: None),
        lambda: store.read("x"),
        lambda: store.size("x"),
        lambda: store.names(""),
        lambda: store.unfinished(""),
    ]
    for call in calls:
        with pytest.raises(RunError, match="share is gone; make it, or mount what it is on"):
            call()
    assert not (tmp_path / "share").exists()


@pytest.mark.slow
@needs_objectstore
@pytest.mark.parametrize("fault", ["busy", "cut", "lost", "slow"])
def test_what_is_read_over_a_line_that_fails_is_what_is_there(
    line: FaultyLine, stores: tuple[Store, Store], fault: Fault
) -> None:
    faulty, straight = stores
    straight.upload("x", MemorySource(LARGE), lambda _: None)
    # Those of a checksum: how large is it, three parts.
    for number in range(4):
        line.faults.extend([*([None] * number), fault])
        assert faulty.sha256("x") == MemorySource(LARGE).sha256
        line.faults.clear()
    line.faults.append(fault)
    assert faulty.names("") == ["x"]
    line.faults.clear()


@pytest.mark.slow
@needs_objectstore
@pytest.mark.parametrize("fault", ["busy", "cut", "lost"])
def test_a_driver_claims_a_run_once_whatever_befalls_its_requests(
    line: FaultyLine, stores: tuple[Store, Store], fault: Fault
) -> None:
    faulty, straight = stores
    # Those of a claim: it is under way, which claims are there, the claim; of a copy: which claims, the record, the page.
    for number in range(6):
        run = replace(RUN, id=f"{fault}-{number}")
        line.faults.extend([*([None] * number), fault])
        records = StoredRecords(faulty)
        run = replace(run, epoch=records.claim(run, AT))
        records.publish(run)
        line.faults.clear()
        assert run.epoch == 1
        assert straight.names(f"{run.id}/claims/") == [f"{run.id}/claims/000001.json"]
        assert StoredRecords(straight).read(run.id) == run


@pytest.mark.slow
@needs_objectstore
def test_several_files_at_once_over_a_line_that_fails_now_and_then_are_each_there_once(
    line: FaultyLine, stores: tuple[Store, Store]
) -> None:
    faulty, straight = stores
    faults: list[Fault | None] = [
        "busy",
        None,
        "cut",
        None,
        None,
        "lost",
        None,
        "half",
        None,
        None,
        "slow",
        None,
    ]
    line.faults.extend(faults * 6)
    sources = {f"out/{i}": MemorySource(bytes([i]) + LARGE[: i * 3_000_000]) for i in range(6)}
    outputs = [Output(path, source.size, source.sha256) for path, source in sources.items()]
    kept: list[Output] = []
    upload_all(faulty, "r", outputs, lambda output: sources[output.path], kept.append, lambda *_: None)
    line.faults.clear()
    assert {output.path for output in kept} == set(sources)
    assert straight.names("r/outputs/") == [f"r/outputs/out/{i}" for i in range(6)]
    assert spoiled(straight, "r", outputs) == ()
    straight.abandon("r/")
    assert straight.unfinished("") == []
