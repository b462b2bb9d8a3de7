"""What all buckets do alike: a folder, S3 and PostgreSQL, each a real one, also while lines fail and servers are away."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.engine.shared import S3, Place
from tests.faulty_line import Fault
from tests.postgres import Postgres
from tidepool.engine.errors import EngineError, NotSupportedError, UsageError
from tidepool.engine.resource import ResourceState, Snapshot
from tidepool.engine.state import postgres as state_postgres
from tidepool.engine.state.bucket import Bucket
from tidepool.engine.state.files import StorageError
from tidepool.engine.state.layout import StackReference
from tidepool.engine.state.location import open_bucket
from tidepool.engine.state.lock import StackLocked
from tidepool.engine.state.secrets import NoSecrets
from tidepool.engine.state.store import CheckpointDamaged, StoreOptions, UpdateInfo

DEV = StackReference("project", "dev")
STACK = ResourceState(
    "urn:pulumi:dev::project::pulumi:pulumi:Stack::project-dev", "pulumi:pulumi:Stack", custom=False
)


@pytest.fixture
def bucket(place: Place) -> Bucket:
    return place.bucket()


def test_objects(bucket: Bucket) -> None:
    folder = bucket.root / "a_b" / "c"
    key = folder / "one.json"
    with pytest.raises(FileNotFoundError):
        bucket.read(key)
    assert bucket.names(folder) == bucket.folders(bucket.root) == []
    assert not bucket.copy(key, folder / "two.json")
    with pytest.raises(FileNotFoundError):
        bucket.move(key, folder / "two.json")
    bucket.remove(key)
    bucket.write(key, b"first")
    bucket.write(key, b"\x00\xffsecond")
    assert bucket.read(key) == b"\x00\xffsecond"
    assert bucket.copy(key, folder / "two.json.bak")
    bucket.write(bucket.root / "aXb" / "c" / "other", b"")  # _ stands for itself alone
    bucket.write(folder / "deeper" / "three", b"3")
    assert bucket.names(folder) == ["one.json", "two.json.bak"]
    assert bucket.folders(bucket.root) == ["aXb", "a_b"]
    assert bucket.folders(folder) == ["deeper"]
    bucket.move(folder / "two.json.bak", folder / "one.json.bak")
    assert [name for _, name in sorted(bucket.dated(folder, "one.json"))] == ["one.json", "one.json.bak"]
    assert [name for _, name in bucket.dated(folder, "one.json.b")] == ["one.json.bak"]
    bucket.remove(key)
    assert bucket.names(folder) == ["one.json.bak"]
    assert bucket.read(folder / "one.json.bak") == b"\x00\xffsecond"


def test_what_ends_in_gz_is_compressed(bucket: Bucket) -> None:
    bucket.write(bucket.root / "x.json.gz", b"x" * 5000)
    assert bucket.read(bucket.root / "x.json.gz") == b"x" * 5000
    assert bucket.copy(bucket.root / "x.json.gz", bucket.root / "y")
    assert bucket.read(bucket.root / "y") == b"x" * 5000
    bucket.write(bucket.root / "z", b"\x28\xb5\x2f\xfd rest")
    with pytest.raises(NotSupportedError, match="zstd"):
        bucket.read(bucket.root / "z")


def test_of_several_that_write_what_is_new_one_does(place: Place) -> None:
    buckets = [place.bucket() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        for turn in range(5):
            barrier = threading.Barrier(4)

            def write(number: int, turn: int = turn, barrier: threading.Barrier = barrier) -> bool:
                barrier.wait()
                bucket = buckets[number]
                return bucket.write_new(bucket.root / f"new-{turn}", f"{number}".encode() * 1000)

            wrote = list(threads.map(write, range(4)))
            assert wrote.count(True) == 1
            assert buckets[0].read(buckets[0].root / f"new-{turn}") == f"{wrote.index(True)}".encode() * 1000


def test_a_journal(place: Place) -> None:
    key = place.bucket().root / "journals" / "dev.journal"

    def log() -> Any:
        return place.bucket().log(key)

    assert log().read() is None
    log().clear()
    with pytest.raises(StorageError, match=r"dev\.journal is gone: whoever wrote it has ended"):
        log().amend(b"0\n")
    first = log()
    first.write(b"1\n2\n")
    first.write(b"3\n")
    first.close()
    assert log().read() == b"1\n2\n3\n"
    log().amend(b"4\n")
    assert log().read() == b"1\n2\n3\n4\n"
    log().clear()
    second, third = log(), log()
    second.write(b"a\n")
    log().clear()  # its lock was broken
    third.write(b"b\n")
    second.remove()
    assert log().read() == b"b\n"
    third.remove()
    assert log().read() is None


def test_a_stack_from_its_making_to_its_end(place: Place) -> None:
    backend = place.backend()
    assert backend.stacks() == []
    backend.create(DEV)
    other, new = StackReference("other", "dev"), StackReference("project", "new")
    backend.create(other)
    for name in ("a", "b"):
        thing = ResourceState(f"urn:pulumi:dev::project::t::{name}", "t", False, parent=STACK.urn)
        backend.write(DEV, backend.encode(DEV, Snapshot((STACK, thing)), NoSecrets()))
        backend.add_history(DEV, UpdateInfo("update", 1, 2, "succeeded", name))
    backend.set_tag(DEV, "team", "hpc")
    again = place.backend()
    assert again.references() == [other, DEV]
    assert [u.message for u in again.history(DEV)] == ["b", "a"]
    packed = place.backend()
    packed.options = replace(packed.options, gzip=True)
    packed._store._options = StoreOptions(gzip=True)
    packed.import_(DEV, again.export(DEV))
    assert again.read(DEV) is not None
    assert [name for name in again.bucket.names(again.layout.stacks / "project") if "bak" not in name] == [
        "dev.json.gz",
        "dev.pulumi-tags",
    ]
    again.rename(DEV, new)
    assert place.backend().tags(new) == {"team": "hpc"}
    assert len(place.backend().history(new)) == 2
    loaded = place.backend().load(new, NoSecrets())
    assert loaded is not None
    assert loaded.resources[1].urn == "urn:pulumi:new::project::t::b"
    again.remove(new, force=True, remove_backups=True)
    assert again.references() == [other]
    assert again.history(new) == []


def test_damage_names_the_backup_by_which_it_is_taken(place: Place) -> None:
    backend = place.backend()
    backend.create(DEV)
    backend.write(DEV, backend.encode(DEV, Snapshot((STACK,)), NoSecrets()))
    backend.add_history(DEV, UpdateInfo("update", 1, 2, "succeeded"))
    backend.bucket.write(backend.layout.checkpoint(DEV), b"{")
    with pytest.raises(CheckpointDamaged, match="The newest usable backup is ") as caught:
        backend.read(DEV)
    named = str(caught.value).partition("--file ")[2].splitlines()[0].strip("'")
    content = backend.backup(named)
    assert content is not None
    assert STACK.urn.encode() in content
    assert backend.backup("elsewhere") is None


def test_a_place_that_cannot_be_read_is_told_as_that_and_not_as_damage(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = place.backend()
    backend.create(DEV)
    backend.write(DEV, backend.encode(DEV, Snapshot((STACK,)), NoSecrets()))

    def away(key: Path) -> bytes:
        raise StorageError(f"{backend.bucket.location(key)} cannot be read: the server is away")

    monkeypatch.setattr(backend.bucket, "read", away)
    with pytest.raises(StorageError, match=r"dev\.json cannot be read: the server is away$"):
        backend.read(DEV)
    monkeypatch.undo()
    # What is there, and is not what was written, is damage.
    backend.bucket.write(backend.layout.checkpoint(DEV), b"\x1f\x8b no gzip")
    with pytest.raises(CheckpointDamaged, match=r"is damaged, nothing was changed: .*damaged gzip"):
        backend.read(DEV)


def test_a_journal_that_goes_while_it_is_read_is_none(shared: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket: Any = shared.bucket()
    key = bucket.root / "journals" / "dev.journal"
    log, others = bucket.log(key), shared.bucket()
    for line in (b"1\n", b"2\n", b"3\n"):
        log.write(line)
    listed = bucket.names

    def names(folder: Path) -> list[str]:
        """What there is; then its last object goes."""
        found: list[str] = listed(folder)
        others.remove(folder / found[-1])
        return found

    with monkeypatch.context() as patched:
        patched.setattr(bucket, "names", names)
        assert bucket.log(key).read() is None
    assert bucket.log(key).read() == b"1\n2\n"
    # Of what is left of it, the beginning tells that it is one.
    others.remove(key / listed(key)[0])
    assert bucket.log(key).read() is None


# Takes the lock when told to, says how it went, and holds it until told to let go.
LOCKER = """
import json, sys
from pathlib import Path
from tidepool.engine.state.backend import DiyBackend
from tidepool.engine.state.layout import StackReference
from tidepool.engine.state.lock import StackLocked
url, env = json.loads(sys.argv[1])
lock = DiyBackend.from_url(url, Path("/"), Path("/"), env).lock(StackReference("project", "dev"))
print("ready", flush=True)
for line in sys.stdin:
    try:
        lock.acquire() if line == "acquire\\n" else lock.release()
        print("done", flush=True)
    except StackLocked as error:
        print(str(error).splitlines()[0], flush=True)
"""


def test_of_two_processes_at_once_never_both_hold_the_lock(place: Place) -> None:
    words = [sys.executable, "-c", LOCKER, json.dumps([place.url, place.env])]
    folder = Path(__file__).parents[3]
    both = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)
        for _ in range(2)
    ]

    def answer(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def tell(process: subprocess.Popen[str], word: str) -> None:
        assert process.stdin is not None
        process.stdin.write(f"{word}\n")
        process.stdin.flush()

    try:
        assert [answer(process) for process in both] == ["ready", "ready"]
        backend = place.backend()
        for _ in range(15):
            for process in both:
                tell(process, "acquire")
            answers = [answer(process) for process in both]
            assert answers.count("done") <= 1
            assert all("done" in said or "currently locked by" in said for said in answers)
            for process, said in zip(both, answers, strict=True):
                if said == "done":
                    with pytest.raises(StackLocked, match=f"pid {process.pid}"), backend.lock(DEV):
                        pytest.fail("taken from its holder")
                    tell(process, "release")
                    assert answer(process) == "done"
            assert backend.bucket.names(backend.layout.locks(DEV)) == []
    finally:
        for process in both:
            process.communicate()


# -- what only places with a server have ----------------------------------------------------------------


def every_call(bucket: Bucket) -> list[tuple[str, Callable[[], object], Callable[[], object]]]:
    """Calls that meet a fault, by name, and what is true when each came to what it is for."""
    a, b = bucket.root / "f" / "a", bucket.root / "f" / "b"
    log = bucket.log(bucket.root / "j")
    big = b"1" * 70_000
    return [
        ("write", lambda: bucket.write(a, big), lambda: bucket.read(a) == big),
        ("read", lambda: bucket.read(a), lambda: bucket.read(a) == big),
        ("copy", lambda: bucket.copy(a, b), lambda: bucket.read(b) == big),
        ("names", lambda: bucket.names(a.parent), lambda: bucket.names(a.parent) == ["a", "b"]),
        ("folders", lambda: bucket.folders(bucket.root), lambda: "f" in bucket.folders(bucket.root)),
        ("remove", lambda: bucket.remove(a), lambda: bucket.names(a.parent) == ["b"]),
        ("log", lambda: log.write(b"x\n"), lambda: bucket.log(bucket.root / "j").read() == b"x\n"),
        ("clear", lambda: bucket.log(bucket.root / "j").clear(), lambda: log.read() is None),
    ]


FAULTS: list[Any] = [
    pytest.param("s3", "busy", marks=S3.marks),
    pytest.param("s3", "cut", marks=S3.marks),
    pytest.param("s3", "lost", marks=S3.marks),
    ("postgres", "cut"),
    ("postgres", "lost"),
]


@pytest.mark.parametrize(("kind", "fault"), FAULTS)
def test_each_call_outlives_a_fault(request: pytest.FixtureRequest, kind: str, fault: Fault) -> None:
    place: Place = request.getfixturevalue(f"in_{kind}")
    assert place.line is not None
    assert place.through is not None
    with place.line() as line:
        for name, call, is_done in every_call(place.bucket(place.through(line.port))):
            line.faults.append(fault)
            call()
            assert not line.faults, f"{name}: the fault met nothing"
            assert is_done(), name


@pytest.mark.slow
def test_a_server_that_is_away_is_told_with_the_remedy(shared: Place) -> None:
    assert shared.stop is not None
    assert shared.start is not None
    bucket = shared.bucket()
    bucket.write(bucket.root / "x", b"1")
    shared.stop()
    try:
        for call in (lambda: bucket.read(bucket.root / "x"), lambda: bucket.write(bucket.root / "x", b"2")):
            with pytest.raises(
                StorageError, match=r"x.* cannot be (read|written): .*; see whether the server runs"
            ) as caught:
                call()
            assert not any(
                secret in str(caught.value) for name, secret in shared.env.items() if "SECRET" in name
            )
    finally:
        shared.start()
    assert bucket.read(bucket.root / "x") == b"1"


def test_a_postgresql_that_hangs_is_asked_no_longer_than_for_one_answer(
    postgres: Postgres,
    in_postgres: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket: Any = in_postgres.bucket()
    bucket.write(bucket.root / "x", b"1")
    monkeypatch.setattr(state_postgres, "_ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setattr(state_postgres, "_TRIED_FOR_S", 0.2)
    tries: list[object] = []
    opened = bucket._opened

    def counted() -> Any:
        tries.append(None)
        return opened()

    monkeypatch.setattr(bucket, "_opened", counted)
    postgres.signal(signal.SIGSTOP)
    try:
        with pytest.raises(StorageError, match="x cannot be read: "):
            bucket.read(bucket.root / "x")
    finally:
        postgres.signal(signal.SIGCONT)
    assert len(tries) == 1
    monkeypatch.undo()
    assert bucket.read(bucket.root / "x") == b"1"


@pytest.mark.slow
def test_of_a_journal_in_many_objects_nothing_is_left(shared: Place) -> None:
    bucket = shared.bucket()
    log = bucket.log(bucket.root / "j")
    for number in range(1_003):
        log.write(f"{number}\n".encode())
    assert bucket.log(bucket.root / "j").read() == "".join(f"{n}\n" for n in range(1_003)).encode()
    log.remove()
    assert bucket.names(bucket.root / "j") == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://me:hunter2@bucket", r"s3://bucket: its URL has a password in it.*AWS_ACCESS_KEY_ID"),
        ("postgres://me:hunter2@db/x", r"postgres://db/x: its URL has a password in it.*PGPASSWORD"),
        ("postgres://me@db/x?password=hunter2", r"postgres://db/x: its URL has a password in it"),
        ("postgres://me@db/x?table=a;b", r"table='a;b' is no name of a table; letters, digits and _"),
        ("s3://?regoin=x&s3ForcePathStyle=yes", r"names no bucket.*; regoin is no option; there are .*; s3Force.* true or"),
    ],
)  # fmt: skip
def test_urls_that_are_not_right_are_told_at_once(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        open_bucket(url, Path("/"), Path("/"), {})
    assert "hunter2" not in str(caught.value)


def test_options_that_only_the_cli_has_are_refused_by_name() -> None:
    with pytest.raises(NotSupportedError, match="the option role of the backend s3://bucket"):
        open_bucket("s3://bucket?role=arn:aws:iam::1:role/x", Path("/"), Path("/"), {})


@pytest.mark.parametrize(
    ("env", "folder", "said"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "tests", r"SignatureDoesNotMatch: .*; give credentials that may do it"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "tests", r"(InvalidAccessKeyId|XAdminUserNotFound): .*; give credentials that may do it"),
        ({}, "none", r"NoSuchBucket: .*; make the bucket, or mend its name"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [S3])
def test_who_is_not_let_in_is_told_why(
    request: pytest.FixtureRequest, kind: str, env: dict[str, str], folder: str, said: str
) -> None:
    place: Place = request.getfixturevalue(f"in_{kind}")
    bucket = open_bucket(
        place.url.replace("tests/", f"{folder}/"), Path("/"), Path("/"), {**place.env, **env}
    )
    with pytest.raises(StorageError, match=said) as caught:
        bucket.write(bucket.root / "x", b"")
    assert place.env["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)


def test_settings_that_are_missing_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(EngineError, match=r"ghost.*; name one that is there, in the URL \(\?profile"):
        open_bucket("s3://b?profile=ghost&region=eu-west-1", tmp_path, tmp_path, {})
    bucket = open_bucket("s3://b?region=eu-west-1", tmp_path, tmp_path, {})
    with pytest.raises(
        StorageError, match=r"s3://b/x cannot be read: .*credentials; give them by AWS_ACCESS"
    ):
        bucket.read(Path("x"))
