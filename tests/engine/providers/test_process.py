from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.engine.providers.started import Heard, connected, is_running, pid_of, script, until
from tests.processes import children
from tidepool.engine.errors import EngineError
from tidepool.engine.providers import connection, process
from tidepool.engine.providers.discovery import PluginCommand
from tidepool.engine.providers.process import PluginProcess, PluginStartError, Watchdog


async def _start(
    folder: Path, command: PluginCommand, output_of: Heard, deadline_s: float = 10
) -> PluginProcess:
    return await PluginProcess.start(
        "odd",
        command.argv,
        cwd=folder,
        environ=dict(os.environ),
        on_log=lambda line, is_stderr: output_of.lines.append((line, is_stderr)),
        deadline_s=deadline_s,
    )


def _refused(folder: Path, text: str, deadline_s: float = 10) -> str:
    async def attempt() -> str:
        with pytest.raises(PluginStartError) as refused:
            await _start(folder, script(folder, text), Heard(), deadline_s)
        return str(refused.value)

    return asyncio.run(attempt())


def test_what_it_writes_is_heard_but_for_its_port(tmp_path: Path) -> None:
    async def run() -> Heard:
        output_of = Heard()
        started = await _start(
            tmp_path, script(tmp_path, "echo 12345; echo out; echo err >&2; printf last"), output_of
        )
        assert started.port == 12345
        await started.ended
        await started.drained()
        await asyncio.sleep(0)  # the lines are on their way through the loop
        return output_of

    assert sorted(asyncio.run(run()).lines) == [("err", True), ("last", False), ("out", False)]


def test_one_that_ends_at_once_says_why(tmp_path: Path) -> None:
    text = _refused(tmp_path, "echo first >&2; echo no license >&2; exit 3")
    assert "pulumi-resource-odd]: it ended with exit code 3; its last words:" in text
    assert text.endswith("\n    first\n    no license")


def test_one_that_is_killed_says_by_what(tmp_path: Path) -> None:
    assert "it was killed by SIGKILL, without a word on stderr" in _refused(tmp_path, "kill -9 $$")


@pytest.mark.parametrize("line", ["hello", "0", "70000", "12 34", "-5"])
def test_a_first_line_that_is_no_port_is_shown(tmp_path: Path, line: str) -> None:
    assert f"wrote {line!r} as its first line to stdout" in _refused(tmp_path, f"echo '{line}'; sleep 60")


def test_dotnets_progress_bar_is_no_part_of_the_port(tmp_path: Path) -> None:
    async def run() -> int:
        command = script(tmp_path, r"printf '\033]9;4;3;\033\\ 4321 \r\n'; exec sleep 60")
        started = await _start(tmp_path, command, Heard())
        await started.stop()
        return started.port

    assert asyncio.run(run()) == 4321


def test_one_that_tells_no_port_in_time_is_ended(tmp_path: Path) -> None:
    text = _refused(tmp_path, f"echo $$ > {tmp_path}/pid; echo thinking >&2; exec sleep 60", deadline_s=0.5)
    assert "did not tell its port within 0.5 s" in text
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_one_that_cannot_be_executed_names_the_file(tmp_path: Path) -> None:
    async def run() -> str:
        missing = PluginCommand((str(tmp_path / "none"),), tmp_path)
        with pytest.raises(PluginStartError) as refused:
            await _start(tmp_path, missing, Heard())
        return str(refused.value)

    assert asyncio.run(run()) == f"could not start plugin odd: {tmp_path}/none: No such file or directory"


def test_a_start_that_is_cancelled_while_it_forks_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn, started, is_cancelled = process.spawn, list[int](), threading.Event()

    def held(
        argv: Sequence[str], cwd: Path, environ: Mapping[str, str]
    ) -> tuple[subprocess.Popen[bytes], Watchdog]:
        popen, watchdog = spawn(argv, cwd, environ)
        started.extend((popen.pid, watchdog._shell.pid))
        is_cancelled.wait(10)
        return popen, watchdog

    async def run() -> None:
        start = asyncio.ensure_future(_start(tmp_path, script(tmp_path, "exec sleep 60"), Heard()))
        await until(lambda: len(started) == 2)
        start.cancel()
        await asyncio.sleep(0)
        is_cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await start

    monkeypatch.setattr(process, "spawn", held)
    asyncio.run(run())
    assert [is_running(pid) for pid in started] == [False, False]


def test_a_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    async def run() -> int:
        command = script(
            tmp_path, f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 60"
        )
        start = asyncio.ensure_future(_start(tmp_path, command, Heard()))
        await until((tmp_path / "pid").exists)
        start.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await start
        return int((tmp_path / "pid").read_text())

    assert not is_running(asyncio.run(run()))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_SIGTERM_AFTER_S", 0.1)
    monkeypatch.setattr(process, "_SIGKILL_AFTER_S", 0.2)


@pytest.mark.usefixtures("impatient")
def test_one_that_ignores_requests_to_end_is_killed_with_its_children(tmp_path: Path) -> None:
    text = f"trap '' INT TERM; sleep 60 & echo $! > {tmp_path}/child; echo 1234; wait; wait; sleep 60"

    async def run() -> tuple[int, int]:
        started = await _start(tmp_path, script(tmp_path, text), Heard())
        await started.stop()
        return started.pid, started.ended.result()

    pid, code = asyncio.run(run())
    assert code == -signal.SIGKILL
    assert not is_running(pid)
    _wait_for_end(int((tmp_path / "child").read_text()))


@pytest.mark.usefixtures("impatient")
def test_sigterm_ends_what_was_started_to_ignore_sigint(tmp_path: Path) -> None:
    async def run() -> int:
        started = await _start(tmp_path, script(tmp_path, "trap '' INT; echo 1234; exec sleep 60"), Heard())
        await started.stop()
        return started.ended.result()

    assert asyncio.run(run()) == -signal.SIGTERM


_ENGINE = """
import asyncio, os, sys
from pathlib import Path
from tests.engine.providers.started import connected, pid_of
async def main():
    async with connected(Path(sys.argv[1])) as provider:
        print(pid_of(provider), os.getpgid(pid_of(provider)), os.getpgid(0), flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


def test_a_killed_engine_takes_its_plugins_with_it(tmp_path: Path) -> None:
    """And a plugin is in a group of its own, so Ctrl-C does not reach it."""
    root = Path(__file__).parents[3]
    environ = {**os.environ, "PYTHONPATH": f"{root}:{root}/tests/engine"}
    with subprocess.Popen(
        [sys.executable, "-c", _ENGINE, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environ
    ) as engine:
        assert engine.stdout is not None
        plugin, plugins_group, engines_group = map(int, engine.stdout.readline().split())
        assert plugins_group == plugin != engines_group
        assert is_running(plugin)
        engine.kill()
    _wait_for_end(plugin)


def test_no_process_is_left_after_close(tmp_path: Path) -> None:
    async def run() -> int:
        async with connected(tmp_path) as provider:
            return pid_of(provider)

    before = children(os.getpid())  # another test's server may be one
    pid = asyncio.run(run())
    # Not even as a zombie: it was reaped, and so was its watchdog.
    assert not Path(f"/proc/{pid}").exists()
    assert children(os.getpid()) <= before


def test_a_port_where_nobody_speaks_grpc_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_HANDSHAKE_DEADLINE_S", 0.2)

    async def run() -> str:
        command = script(tmp_path, "echo 9; exec sleep 60")  # the discard port: nobody listens
        with pytest.raises(EngineError) as refused:
            async with connected(tmp_path, command):
                pass
        return str(refused.value)

    assert "plugin fake did not come alive" in asyncio.run(run())


def _wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + 5
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} outlived the engine"
        time.sleep(0.01)
