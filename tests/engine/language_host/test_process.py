"""The host as a process: how the CLI starts it, and how it ends; and that it is beside the CLI where that is installed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

from tidepool.engine.language_host.installing import EXECUTOR, install

ROOT = Path(__file__).parents[3]


def test_the_host_is_installed_beside_the_cli_and_can_be_again(tmp_path: Path) -> None:
    store, place = tmp_path / "store", tmp_path / "environment"
    store.mkdir()
    for name in ("pulumi", EXECUTOR, "pulumi-resource-pulumi-python"):
        (store / name).write_text(name)
        (store / name).chmod(0o755)
    for _ in range(2):
        assert install(store, place) == place / "bin" / "pulumi"
    (store / "newer").write_text("newer")
    (store / "newer").replace(store / "pulumi")
    install(store, place)
    assert (place / "bin" / "pulumi").read_text() == "newer"
    there = {file.name for file in (place / "bin").iterdir()}
    assert there == {file.name for file in store.iterdir()} | {"pulumi-language-python"}
    with subprocess.Popen(
        [place / "bin" / "pulumi-language-python"], cwd="/", stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline())
        process.terminate()
        assert process.wait(30) == 0


def _host(folder: Path) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "tidepool.engine.language_host",
        "--executor",
        str(folder / "none"),
        "127.0.0.1:1",
    ]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_the_process_prints_its_port_serves_and_ends_at_a_signal(tmp_path: Path) -> None:
    with _host(tmp_path) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = language_pb2_grpc.LanguageRuntimeStub(channel)
            stub.Handshake(language_pb2.LanguageHandshakeRequest(engine_address="127.0.0.1:2"))
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_the_process_ends_with_whoever_started_it(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys\n"
        f"host = subprocess.Popen([sys.executable, '-m', 'tidepool.engine.language_host', '--executor', 'x'], cwd={str(ROOT)!r},"
        " stdout=subprocess.PIPE)\n"
        "host.stdout.readline()\nprint(host.pid, flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    host = Path(f"/proc/{int(done.stdout)}/stat")
    gone = threading.Event()
    deadline = time.monotonic() + 30
    while host.exists() and host.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        gone.wait(0.05)
