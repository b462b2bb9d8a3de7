"""`reap --listen`: a service, and beside it a sweeper that ends with it."""

from __future__ import annotations

import http.client
import os
import queue
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.clients.kubernetes.pki import Authority
from tests.clients.slurm.real import eventually, free_port
from tests.whole.runs import processes_of
from tidepool.cli.runs import listening
from tidepool.cli.runs.listening import Drivers, serve
from tidepool.runs.results import open_store


def _reap(folder: Path, *words: str) -> tuple[list[str], Mapping[str, str]]:
    (folder / "results").mkdir(exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "tidepool.cli",
        "reap",
        "--results",
        (folder / "results").as_uri(),
        *words,
    ]
    return command, {**os.environ, "TIDEPOOL_DATA": str(folder / "data")}


class Over(Exception):
    """Ends a service that would serve for ever."""


class Counted(Drivers):
    """Drivers that drive nothing: they count what they are asked for, and end the service at the given sweep."""

    def __init__(self, sweeps: int) -> None:
        self.began, self.sweeps, self.left = time.monotonic(), list[tuple[float, float]](), sweeps

    def reap(self, every_s: float) -> None:
        self.sweeps.append((time.monotonic() - self.began, every_s))
        if len(self.sweeps) == self.left:
            raise Over


def _served(tmp_path: Path, drivers: Drivers, every_s: float | None) -> None:
    with closing(open_store(tmp_path.as_uri(), {})) as store, pytest.raises(Over):
        serve(drivers, store, f"127.0.0.1:{free_port()}", None, None, every_s)


def test_it_sweeps_by_itself_each_minute_and_not_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listening._SWEPT_EVERY_S == 60.0
    monkeypatch.setattr(listening, "_SWEPT_EVERY_S", 0.2)
    by_itself, said = Counted(2), Counted(1)
    _served(tmp_path, by_itself, None)
    (first_s, first), (second_s, second) = by_itself.sweeps
    assert (first, second) == (0.2, 0.2)
    # Clusters that waited for the service come first.
    assert first_s >= 0.2
    assert second_s >= 0.4
    _served(tmp_path, said, 0.1)
    assert said.sweeps[0][1] == 0.1


def test_requests_without_a_pause_keep_no_sweep_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy(queue.SimpleQueue[str]):
        """Always has another one."""

        def get(self, block: bool = True, timeout: float | None = None) -> str:
            return "physics-1"

    ended: list[str] = []
    drivers = Counted(2)
    monkeypatch.setattr(drivers, "end", ended.append)
    monkeypatch.setattr(listening, "queue", SimpleNamespace(SimpleQueue=Busy, Empty=queue.Empty))
    _served(tmp_path, drivers, 0.1)
    assert ended


def test_it_answers_sweeps_beside_and_leaves_nobody(tmp_path: Path) -> None:
    port = free_port()
    authority = Authority.made()
    pair = authority.sign("service", addresses=("127.0.0.1",))
    (tmp_path / "certificate.pem").write_text(pair.certificate)
    (tmp_path / "key.pem").write_text(pair.key)
    secured = ["--certificate", str(tmp_path / "certificate.pem"), "--key", str(tmp_path / "key.pem")]
    command, env = _reap(tmp_path, "--listen", f"127.0.0.1:{port}", *secured, "--every", "1", "--json")
    (tmp_path / "results" / "under-way").mkdir()
    (tmp_path / "results" / "under-way" / "physics-1").touch()
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            # Of the sweeper, which has found one that nobody has claimed yet.
            assert any('"run": "physics-1"' in line for line in process.stdout)
            assert any("reap --every 1 " in each for each in processes_of(tmp_path / "data", ""))
            trusting = ssl.create_default_context(cadata=authority.pair.certificate)
            with closing(
                http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=trusting)
            ) as connection:
                connection.request("POST", "/physics-1/end", headers={"Authorization": f"Bearer {'x' * 43}"})
                assert connection.getresponse().status == 401
        finally:
            process.kill()
    eventually(lambda: processes_of(tmp_path / "data", ""), lambda found: found == [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--listen", "8443"], "write ADDRESS:PORT"),
        (["--listen", "10.9.0.5:"], "write ADDRESS:PORT"),
        (["--listen", "127.0.0.1:99999"], "write ADDRESS:PORT"),
        (["--listen", "203.0.113.5:8443"], "name an address of this machine"),
        (["--listen", "127.0.0.1:8443", "--key", "no.pem"], "--key is of a --certificate"),
        (["--listen", "127.0.0.1:8443", "--certificate", "no.pem"], "a certificate with its key"),
    ],
)
def test_what_cannot_be_listened_with_is_told(tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "no.pem").write_text("none")
    command, env = _reap(tmp_path, *words)
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode not in (0, 1), done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
