"""What a controller does by its two tokens: nothing while jobs run or somebody drives the run, then outputs, then its end."""

from __future__ import annotations

import io
import json
import os
import ssl
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.clients.kubernetes.pki import Authority
from tests.clients.slurm.real import free_port
from tests.runs.results.sources import LARGE
from tests.runs.serving import AT, LEASE, Site, serving
from tidepool.cluster.run_service import CREDENTIALS_FILE, RUN_FILES_PROGRAM
from tidepool.runs import controller_agent as agent
from tidepool.runs.results.store import MOST_PARTS, PART, Store, spans


@dataclass
class Controller:
    """A controller of run ``physics-1``: its folder, what it was told, and what Slurm says of jobs."""

    site: Site
    run_folder: Path
    credentials: Path
    squeue: Path
    told: dict[str, Any]

    def say(self, **changes: Any) -> None:
        self.told |= changes
        self.credentials.write_text(json.dumps(self.told))

    def jobs(self, *lines: str, code: int = 0) -> None:
        said = "".join(f"echo '{line}'\n" for line in lines)
        self.squeue.write_text(f"#!/bin/sh\n{said}exit {code}\n")
        self.squeue.chmod(0o755)


@pytest.fixture
def site(store: Store) -> Iterator[Site]:
    made = Site(store)
    made.begin("physics-1")
    with serving(made):
        yield made


@pytest.fixture
def controller(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    folder, programs = tmp_path / "home", tmp_path / "bin"
    (folder / "out").mkdir(parents=True)
    programs.mkdir()
    program = tmp_path / "run_files.py"
    program.write_text(files("tidepool.runs").joinpath("files_agent.py").read_text())
    monkeypatch.setattr(agent, "CREDENTIALS", str(tmp_path / "credentials.json"))
    monkeypatch.setattr(agent, "FILES", str(program))
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    tokens = site.tokens["physics-1"]
    made = Controller(site, folder, tmp_path / "credentials.json", programs / "squeue", {})
    made.say(
        service=f"http://127.0.0.1:{site.port}",
        certificate=None,
        run="physics-1",
        user="",
        folder=str(folder),
        globs=["out/*"],
        inputs=["out/given"],
        ends_at=None,
        outputs=tokens.outputs,
        end=tokens.end,
    )
    made.jobs()
    return made


def test_outputs_are_kept_and_then_the_end_is_asked_for(controller: Controller) -> None:
    out = controller.run_folder / "out"
    contents = {"large": LARGE, "ü #?&": b"small", "empty": b""}
    for name, content in contents.items():
        (out / name).write_bytes(content)
    (out / "given").write_text("an input")
    (out / "link").symlink_to("/etc/passwd")
    assert agent.look() == "run: 3 outputs are kept; its end was asked for"
    store = controller.site.store
    prefix = "physics-1/outputs/out/"
    there = {name: store.read(name) for name in store.names("physics-1/outputs/")}
    assert there == {f"{prefix}{name}": content for name, content in contents.items()}
    assert controller.site.wanted == ["physics-1"]
    # What is there is not sent again.
    assert agent.look() == "run: 3 outputs are kept; its end was asked for"
    assert store.unfinished("") == []


def test_one_that_cannot_be_kept_keeps_no_other_back(controller: Controller) -> None:
    out, store = controller.run_folder / "out", controller.site.store
    for name in ("a", "b\nc", "d", os.fsdecode(b"\xff")):
        (out / name).write_bytes(b"new " + os.fsencode(name))
    store.write("physics-1/outputs/out/a", b"old")
    said = agent.look()
    assert said.startswith("run: 1 outputs are kept; out/a: the service answers 403: ")
    for name in ("b\nc", os.fsdecode(b"\xff")):
        assert f"out/{name}: the service answers 400: " in said
    assert store.read("physics-1/outputs/out/d") == b"new d"
    assert store.read("physics-1/outputs/out/a") == b"old"
    assert controller.site.wanted == ["physics-1"]


def test_an_upload_that_was_cut_off_is_gone_on_with(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    (controller.run_folder / "out" / "large").write_bytes(LARGE)
    sent: list[str] = []
    call = agent.call

    def cut(run: Any, method: str, what: str, token: str, data: bytes = b"") -> Any:
        sent.append(method)
        if sent.count("PUT") == 2 and method == "PUT":
            raise agent.Conflict("cut off")
        return call(run, method, what, token, data)

    def counted(run: Any, method: str, what: str, token: str, data: bytes = b"") -> Any:
        sent.append(method)
        return call(run, method, what, token, data)

    monkeypatch.setattr(agent, "call", cut)
    assert agent.look() == ""
    sent.clear()
    monkeypatch.setattr(agent, "call", counted)
    assert agent.look() == "run: 1 outputs are kept; its end was asked for"
    assert sent.count("PUT") == len(spans(len(LARGE))) - 1
    assert controller.site.store.sha256("physics-1/outputs/out/large")


def test_while_somebody_drives_the_run_nothing_is_done(controller: Controller) -> None:
    (controller.run_folder / "out" / "a").write_text("a")
    controller.site.now = AT + LEASE - timedelta(seconds=1)
    assert agent.look() == ""
    assert controller.site.wanted == []
    assert controller.site.store.names("physics-1/outputs/") == []


@pytest.mark.parametrize(
    ("lines", "is_over"),
    [
        ([], True),
        (["COMPLETED None", "FAILED NonZeroExitCode", "TIMEOUT TimeLimit", "CANCELLED None"], True),
        (["RUNNING None"], False),
        (["COMPLETED None", "COMPLETING None"], False),
        (["PENDING Resources"], False),
        (["PENDING Priority"], False),
        # Nobody lets them go but who drives the run.
        (["PENDING JobHeldUser", "PENDING Dependency", "PENDING DependencyNeverSatisfied"], True),
        (["PENDING JobHeldAdmin", "PENDING Resources"], False),
        (["SUSPENDED None"], False),
        (["REQUEUED None"], False),
    ],
)
def test_it_is_over_when_no_job_does_anything_more(
    controller: Controller, lines: list[str], is_over: bool
) -> None:
    controller.jobs(*lines)
    assert agent.is_over(controller.told, 0.0) is is_over
    assert bool(agent.look()) is is_over


def test_where_slurm_says_nothing_it_is_over_at_the_deadline_alone(controller: Controller) -> None:
    controller.jobs(code=1)
    controller.say(ends_at=100.0)
    assert not agent.is_over(controller.told, 99.0)
    assert agent.is_over(controller.told, 100.0)
    controller.squeue.unlink()
    assert not agent.is_over(controller.told, 99.0)


def test_a_service_that_is_away_is_asked_again(controller: Controller) -> None:
    controller.say(service=f"http://127.0.0.1:{free_port()}")
    assert agent.look().startswith("run: the service does not answer: ")
    controller.say(service=f"http://127.0.0.1:{controller.site.port}", end="x" * 43)
    assert (
        agent.look()
        == 'run: the service answers 401: {"error": "that token does not give the right to that"}'
    )
    assert controller.site.wanted == []


def test_a_token_goes_to_the_service_and_nowhere_that_an_answer_or_an_environment_leads_to(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.path)
            if self.path.startswith("/physics-1"):
                self.send_response(307)
                self.send_header("Location", f"http://{self.headers['Host']}/other")
            else:
                self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        at = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setenv("http_proxy", at)
        assert agent.look() == "run: 0 outputs are kept; its end was asked for"
        assert heard == []
        controller.say(service=at)
        assert agent.look().startswith("run: the service answers 307")
        assert heard == ["/physics-1/end"]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_service_is_known_by_its_certificate(controller: Controller, tmp_path: Path, store: Store) -> None:
    mine, other = Authority.made(), Authority.made()
    signed = mine.sign("service", addresses=("127.0.0.1",))
    (tmp_path / "signed.pem").write_text(signed.certificate + signed.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "signed.pem")
    secured = Site(store, tokens=controller.site.tokens)
    with serving(secured, context):
        controller.say(service=f"https://127.0.0.1:{secured.port}", certificate=other.pair.certificate)
        assert "CERTIFICATE_VERIFY_FAILED" in agent.look()
        assert secured.wanted == []
        controller.say(certificate=mine.pair.certificate)
        assert agent.look() == "run: 0 outputs are kept; its end was asked for"
        assert secured.wanted == ["physics-1"]


def test_credentials_are_root_s_alone_whatever_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, part, other = (tmp_path / name for name in ("credentials.json", "credentials.json.part", "other"))
    monkeypatch.setattr(agent, "CREDENTIALS", str(file))

    def take(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        agent.take_credentials()

    for there in (file, part):
        there.write_text("old")
        there.chmod(0o666)
    take('{"end": "x"}')
    assert (file.read_text(), file.stat().st_mode & 0o777) == ('{"end": "x"}', 0o600)
    other.write_text("mine")
    part.symlink_to(other)
    with pytest.raises(OSError, match="symbolic links"):
        take('{"end": "y"}')
    assert other.read_text() == "mine"
    with pytest.raises(ValueError, match="Expecting value"):
        take("no JSON")
    assert file.read_text() == '{"end": "x"}'


def test_what_the_program_is_told_apart_is_the_same() -> None:
    assert (agent.CREDENTIALS, agent.FILES) == (CREDENTIALS_FILE, RUN_FILES_PROGRAM)
    for size in (0, 1, PART, PART + 1, MOST_PARTS * PART, MOST_PARTS * PART + 1):
        assert agent._spans(size) == spans(size)
