"""Verbs in processes that are forked: they end as started ones do, and with whoever began them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import grpc
import pytest

from tests.whole.cluster import ROOT, until
from tidepool.cli.context import Context
from tidepool.cli.runs.forked import have_streams
from tidepool.cli.runs.verbs import Kind, VerbServer
from tidepool.cli.stack import Stack, find_stack
from tidepool.engine.state import secrets


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return stack_in(tmp_path)


def stack_in(folder: Path) -> Stack:
    """Return one of a project whose provider is this repository's."""
    for name in ("Pulumi.yaml", "provider", ".venv", "__main__.py"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "Pulumi.x.yaml").write_text("config: {}\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TIDEPOOL_DATA": str(folder / "data")}
    return find_stack(Context(env, folder), "x", None)


@contextmanager
def served(stack: Stack, kind: Kind = "cluster") -> Iterator[VerbServer]:
    server = VerbServer.start(stack, kind)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def threads_of_grpc() -> Iterator[None]:
    """A library's threads, which are none of Python's, and which it begins again in a process that is forked."""
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        with pytest.raises(grpc.RpcError):
            channel.unary_unary("/nobody/answers", bytes, bytes)(b"", timeout=5)
        yield


@contextmanager
def another_thread() -> Iterator[None]:
    ends = threading.Event()
    thread = threading.Thread(target=ends.wait)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def said(server: VerbServer, log: Path, *words: str) -> tuple[int | None, str]:
    with log.open("ab") as file:
        code = server.begin(words, file.fileno()).wait(60)
    return code, log.read_text()


def test_a_verb_ends_with_its_code_and_says_what_it_says(stack: Stack, tmp_path: Path) -> None:
    with served(stack) as server:
        code, text = said(server, tmp_path / "one", "nix")
        assert code == 2
        assert "there is no verb 'nix'" in text
        code, text = said(server, tmp_path / "two", "--version")
        assert code == 0
        assert text.startswith("tidepool, version ")


def test_a_verb_that_is_under_way_hears_of_the_end(stack: Stack, tmp_path: Path) -> None:
    with served(stack) as server, (tmp_path / "log").open("ab") as log:
        verb = server.begin(["reap", "--results", tmp_path.as_uri(), "--every", "1000"], log.fileno())
        assert verb.wait(0.2) is None
        verb.send(signal.SIGTERM)
        assert verb.wait(30) == -signal.SIGTERM
        verb.send(signal.SIGTERM)  # nobody is there to hear it
        other = server.begin(["reap", "--results", tmp_path.as_uri(), "--every", "1000"], log.fileno())
        assert other.wait(0.2) is None
    assert other.wait(30) == -signal.SIGTERM
    until(lambda: True if not Path(f"/proc/{other.pid}").exists() else None, "it ends with the server")


@pytest.mark.parametrize(
    ("kind", "threads"),
    [("cluster", nullcontext), ("runs", nullcontext), ("cluster", another_thread), ("runs", threads_of_grpc)],
)
def test_it_has_no_thread_that_a_fork_would_not_copy_whatever_began_it(
    stack: Stack, tmp_path: Path, kind: Kind, threads: Callable[[], AbstractContextManager[None]]
) -> None:
    with threads(), served(stack, kind) as server, (tmp_path / "log").open("ab") as log:
        verb = server.begin(["reap", "--results", tmp_path.as_uri(), "--every", "1000"], log.fileno())
        parent = parent_of(verb.pid)
        its_threads = len([*Path(f"/proc/{parent}/task").iterdir()])
        verb.send(signal.SIGTERM)
        assert verb.wait(30) == -signal.SIGTERM
        assert parent_of(parent) == os.getpid()
        assert its_threads == 1
        assert said(server, tmp_path / "other", "nix")[0] == 2


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_run_goes_on_when_whoever_began_it_is_gone(stack: Stack, tmp_path: Path, how: str) -> None:
    with served(stack, "runs") as server, (tmp_path / "log").open("ab") as log:
        verb = server.begin(["reap", "--results", tmp_path.as_uri(), "--every", "1000"], log.fileno())
        if how == "killed":
            os.kill(parent_of(verb.pid), signal.SIGKILL)
            assert verb.wait(30) == -signal.SIGTERM
            with pytest.raises(OSError, match=r"ended|Broken pipe|refused|Connection"):
                server.begin(["nix"], log.fileno())
    try:
        until(lambda: parent_of(verb.pid) != os.getpid() or None, "it is nobody's here")
        assert Path(f"/proc/{verb.pid}").exists()
        assert verb.wait(30) == -signal.SIGTERM, "how it ends nobody here hears"
    finally:
        os.kill(verb.pid, signal.SIGKILL)


def test_a_key_that_a_verb_derived_is_known_to_the_next(tmp_path: Path) -> None:
    assert in_a_process_of_its_own(two_verbs_that_derive_a_key, tmp_path) == repr(((0, "0\n"), (0, "1\n"), 0))


def two_verbs_that_derive_a_key(folder: Path) -> None:
    def verb(*_: object, **__: object) -> None:
        sys.stdout.write(f"{len(secrets.keys())}\n")
        secrets._derive("passphrase", b"salt")

    with pytest.MonkeyPatch.context() as patch:
        # Before the server is forked, which has it then.
        patch.setattr("tidepool.cli.main.cli.main", verb)
        with served(stack_in(folder)) as server:
            seen = said(server, folder / "one"), said(server, folder / "two"), len(secrets.keys())
    sys.stdout.write(repr(seen))


def test_a_verb_of_a_forked_run_has_its_own_output(tmp_path: Path) -> None:
    assert in_a_process_of_its_own(a_verb_of_a_forked_run, tmp_path) == ""
    assert (tmp_path / "outer").read_text() == "0\n"
    assert (tmp_path / "inner").read_text().startswith("tidepool, version ")


def a_verb_of_a_forked_run(folder: Path) -> None:
    """Have a verb forked in its turn, as a run of a sweep does."""
    have_streams(os.open(folder / "outer", os.O_WRONLY | os.O_CREAT), os.open(os.devnull, os.O_WRONLY))
    with served(stack_in(folder)) as server:
        sys.stdout.write(f"{said(server, folder / 'inner', '--version')[0]}\n")
        sys.stdout.flush()


def in_a_process_of_its_own(program: Callable[[Path], None], folder: Path) -> str:
    """Run ``program`` where one thread is whatever other tests have begun, and return what it says.

    A fork of this process would not do: gRPC's threads, where a test has left any, begin again in it.
    """
    run = f"import sys, pathlib; from tests.cli.runs.test_verbs import {program.__name__} as it; it(pathlib.Path(sys.argv[1]))"
    return subprocess.run(
        [sys.executable, "-c", run, folder], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_what_is_begun_without_a_server_is_told(stack: Stack, tmp_path: Path) -> None:
    with served(stack) as server:
        pass
    with (tmp_path / "log").open("ab") as log, pytest.raises(OSError, match="Bad file descriptor"):
        server.begin(["nix"], log.fileno())
