"""slurmrestd, beside Slurm's commands on the same cluster."""

from __future__ import annotations

import os
import shutil
import signal
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.slurm.real import PATH, eventually
from tests.clients.slurm.world import RealWorld, up, wait_for_job
from tidepool.clients.slurm import (
    ControllerDown,
    JobRequest,
    JobState,
    Malformed,
    NotFound,
    Slots,
    SlurmError,
    TimedOut,
    Unreachable,
    Unsupported,
)
from tidepool.clients.slurm.rest import SlurmRest

LONG = "#!/bin/sh\n#SBATCH --output=/dev/null\nsleep 300\n"


@pytest.fixture
def rest(here: RealWorld, tmp_path: Path) -> Iterator[SlurmRest]:
    """The real one, by slurmrestd on a unix socket."""
    if shutil.which("slurmrestd", path=PATH) is None:
        pytest.skip("not installed: slurmrestd")
    path = tmp_path / "rest"
    log = (tmp_path / "rest.log").open("wb")
    process = subprocess.Popen(
        [
            "slurmrestd",
            "-f",
            str(here.real.conf),
            "-s",
            "openapi/v0.0.38",
            "-a",
            "rest_auth/local",
            f"unix:{path}",
        ],
        env={"PATH": PATH, **here.real.environment, "SLURMRESTD_SECURITY": "disable_user_check"},
        stdin=subprocess.DEVNULL,
        stderr=log,
    )
    log.close()
    try:
        eventually(path.exists, bool)
        yield SlurmRest(path, timeout_s=8)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


def test_it_sees_what_the_commands_see(here: RealWorld, rest: SlurmRest) -> None:
    names = up(here, 2, features=("std",))
    running = here.slurm.submit(JobRequest(LONG, tasks=2, memory_mib=100)).job_id
    wait_for_job(here, running, JobState.RUNNING)
    here.slurm.submit(
        JobRequest(
            LONG,
            nodes="2",
            tasks=4,
            memory_per_cpu_mib=50,
            features="std",
            array="0-9:3",
            gpus="2",
            hold=True,
        )
    )
    here.slurm.drain(names.replace("[1-2]", "2"), "a reason")
    assert rest.version() == here.slurm.version()
    assert rest.ping() == here.slurm.ping()
    for seen, wanted in zip(rest.nodes(names), here.slurm.nodes(names), strict=True):
        assert seen == wanted._replace(last_busy_time=seen.last_busy_time)
    for job, other in zip(sorted(rest.jobs()), sorted(here.slurm.jobs()), strict=True):
        assert job == other._replace(max_nodes=job.max_nodes, request="")
    for partition, same in zip(rest.partitions(), here.slurm.partitions(), strict=True):
        assert (partition.name, partition.state, partition.is_default) == (
            same.name,
            same.state,
            same.is_default,
        )
        assert (partition.nodes, partition.max_time_s) == (same.nodes, same.max_time_s)
    assert rest.reservations() == here.slurm.reservations()
    rest.cancel(running)
    wait_for_job(here, running, JobState.CANCELLED)


def test_it_does_not_show_slots(here: RealWorld, rest: SlurmRest) -> None:
    name = here.slots(1)
    assert [node.name for node in here.slurm.nodes()] == [name]
    assert rest.nodes() == ()
    with pytest.raises(NotFound, match=name):
        rest.nodes(name)


def test_what_it_cannot_do_it_says(rest: SlurmRest) -> None:
    with pytest.raises(Unsupported, match="cannot drain nodes"):
        rest.drain("n1", "why")
    with pytest.raises(Unsupported, match="cannot create nodes"):
        rest.create_slots(Slots("n1", "10.0.0.1", 1, 1))
    with pytest.raises(Unsupported, match="Slurm's commands"):
        rest.reconfigure()


def test_a_dead_controller_is_an_error_and_no_empty_list(here: RealWorld, rest: SlurmRest) -> None:
    here.controller_dies()
    try:
        for look in (rest.nodes, rest.jobs, rest.partitions, rest.reservations):
            with pytest.raises(SlurmError) as caught:
                look()
            assert type(caught.value) is ControllerDown
    finally:
        here.controller_returns()


def test_nobody_there_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="see whether it runs"):
        SlurmRest(tmp_path / "nowhere").nodes()


class _Answers(socketserver.StreamRequestHandler):
    said = b""

    def handle(self) -> None:
        self.rfile.readline()
        self.wfile.write(self.said)
        if not self.said:
            self.rfile.read()


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", Malformed),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"nodes": []', Malformed),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"nodes": []', Malformed),
        (b"HTTP/1.1 404 NOT FOUND\r\nContent-Length: 9\r\n\r\nnot found", Malformed),
        (b"nonsense\r\n\r\n", Unreachable),
        (b"", TimedOut),
    ],
)
def test_answers_that_are_none(said: bytes, kind: type[SlurmError]) -> None:
    handler = type("Handler", (_Answers,), {"said": said})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        host, port = server.server_address[:2]
        with pytest.raises(SlurmError) as caught:
            SlurmRest((str(host), port), user="root", token="x", timeout_s=1).nodes()
        assert type(caught.value) is kind
        server.shutdown()
