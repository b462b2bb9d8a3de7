"""What all places of results do alike: a folder, and a bucket of a real S3 server."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.runs.results.sources import LARGE, MemorySource
from tidepool.runs.ports import Refused, RunError
from tidepool.runs.results.store import PART, Differs, Store, spans


def test_objects(store: Store) -> None:
    store.check()
    assert store.names("") == []
    for call in (store.read, store.size, store.sha256):
        with pytest.raises(FileNotFoundError):
            call("a/b")
    store.write("a/b", b"first")
    store.write("a/b", b"\x00\xffsecond")
    store.write("a/ü c", b"")
    assert store.read("a/b") == b"\x00\xffsecond"
    assert store.size("a/b") == 8
    assert store.fetch("a/b", 2, 3) == b"sec"
    assert store.sha256("a/b") == hashlib.sha256(b"\x00\xffsecond").hexdigest()
    assert store.names("") == ["a/b", "a/ü c"]
    assert store.names("a/ü") == ["a/ü c"]
    store.remove("a/b")
    store.remove("a/b")
    assert store.names("a/") == ["a/ü c"]


def test_of_several_that_write_what_is_new_one_does(reopen: Callable[[], Store]) -> None:
    with ThreadPoolExecutor(8) as threads:
        stores = [reopen() for _ in range(8)]
        written = list(threads.map(lambda i: stores[i].write_new("claim", b"%d" % i), range(8)))
    assert written.count(True) == 1
    assert stores[0].read("claim") == b"%d" % written.index(True)
    for each in stores:
        each.close()


@pytest.mark.parametrize("content", [b"", b"small", LARGE], ids=["empty", "small", "large"])
def test_what_is_uploaded_is_there_once(store: Store, content: bytes) -> None:
    source, sent = MemorySource(content), list[int]()
    assert store.upload("r/outputs/x", source, sent.append)
    assert sum(sent) == len(content)
    assert store.size("r/outputs/x") == len(content)
    assert store.sha256("r/outputs/x") == source.sha256
    again = MemorySource(content)
    assert not store.upload("r/outputs/x", again, sent.append)
    assert again.reads == []
    assert sum(sent) == 2 * len(content)
    assert store.unfinished("") == []
    assert store.names("") == ["r/outputs/x"]


@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
def test_another_file_of_that_name_is_left_as_it_is(store: Store, content: bytes) -> None:
    store.upload("x", MemorySource(content), lambda _: None)
    for other in (content[:-1] + b"!", b"short", LARGE[:-1]):
        with pytest.raises(Differs, match=r"x is there already, and is another file; move it away"):
            store.upload("x", MemorySource(other), lambda _: None)
    assert store.sha256("x") == MemorySource(content).sha256


def test_an_upload_that_was_cut_off_is_gone_on_with(reopen: Callable[[], Store]) -> None:
    store = reopen()
    with pytest.raises(RunError, match="cut off"):
        store.upload("r/x", MemorySource(LARGE, ends_at=2 * PART), lambda _: None)
    assert store.names("") == []
    assert store.unfinished("r/") == ["r/x"]
    store.close()
    store = reopen()
    sent = list[int]()
    assert store.upload("r/x", MemorySource(LARGE), sent.append)
    assert sum(sent) == len(LARGE)
    assert store.sha256("r/x") == MemorySource(LARGE).sha256
    assert store.unfinished("") == []
    store.close()


def test_what_was_cut_off_and_is_another_file_now_is_uploaded_as_it_is_now(store: Store) -> None:
    with pytest.raises(RunError, match="cut off"):
        store.upload("x", MemorySource(LARGE, ends_at=2 * PART), lambda _: None)
    now = b"!" + LARGE[1:]
    assert store.upload("x", MemorySource(now), lambda _: None)
    assert store.sha256("x") == MemorySource(now).sha256


def test_what_is_abandoned_leaves_nothing_of_it(store: Store) -> None:
    for name in ("r1/x", "r2/x"):
        with pytest.raises(RunError, match="cut off"):
            store.upload(name, MemorySource(LARGE, ends_at=PART), lambda _: None)
    store.abandon("r1/")
    assert store.unfinished("") == ["r2/x"]
    store.abandon("r1/")
    store.abandon("")
    assert store.unfinished("") == []
    assert store.names("") == []


def _checksums(content: bytes) -> list[str]:
    return [
        hashlib.md5(content[at : at + length], usedforsecurity=False).hexdigest()
        for at, length in spans(len(content))
    ]


def _put_missing(store: Store, name: str, content: bytes, rounds: int) -> tuple[int, ...]:
    told = hashlib.sha256(content).hexdigest()
    for _ in range(rounds):
        for number in store.missing_parts(name, len(content), told, _checksums(content)):
            at, length = spans(len(content))[number - 1]
            store.put_part(name, len(content), number, content[at : at + length])
    return store.missing_parts(name, len(content), told, _checksums(content))


@pytest.mark.parametrize("content", [b"", b"small", LARGE], ids=["empty", "small", "large"])
def test_parts_that_come_one_by_one_are_an_object_when_all_are_there(
    reopen: Callable[[], Store], content: bytes
) -> None:
    store = reopen()
    _put_missing(store, "r/outputs/x", content, 1)
    store.close()
    # Whoever goes on may be another.
    store = reopen()
    assert _put_missing(store, "r/outputs/x", content, 3) == ()
    assert store.sha256("r/outputs/x") == hashlib.sha256(content).hexdigest()
    assert store.unfinished("") == []
    assert _put_missing(store, "r/outputs/x", content, 0) == ()
    with pytest.raises(Differs):
        _put_missing(store, "r/outputs/x", b"another", 0)
    store.close()


def test_parts_of_another_time_are_not_taken_for_those_of_now(store: Store) -> None:
    other = b"!" + LARGE[1:]
    number = store.missing_parts("x", len(other), hashlib.sha256(other).hexdigest(), _checksums(other))[0]
    store.put_part("x", len(other), number, other[:PART])
    assert _put_missing(store, "x", LARGE, 8) == ()
    assert store.sha256("x") == MemorySource(LARGE).sha256


def test_a_part_that_is_not_as_long_as_it_has_to_be_is_refused(store: Store) -> None:
    store.missing_parts("x", len(LARGE), MemorySource(LARGE).sha256, _checksums(LARGE))
    for number, data in ((1, b"short"), (3, LARGE[:PART])):
        with pytest.raises(Refused):
            store.put_part("x", len(LARGE), number, data)
    assert store.names("") == []
