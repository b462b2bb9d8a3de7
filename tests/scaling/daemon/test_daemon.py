"""The process around the loop: what it says, its pages, how it ends; and how it names itself."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.scaling.journal.values import SPEC
from tidepool.journals.processes import is_gone, this_process
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.daemon.daemon import ADDRESS_FILE, Daemon, Listen, NoAddress
from tidepool.scaling.daemon.events import Voice
from tidepool.scaling.daemon.health import notify
from tidepool.scaling.daemon.loop import Turn
from tidepool.scaling.daemon.wake import Wake
from tidepool.scaling.decision import Convert, Decision, Drain, Launch, MachineView, Remove, WaitingPod
from tidepool.scaling.memory import Memory
from tidepool.scaling.observe.observation import Observation
from tidepool.scaling.ports import Failure, Intent, StackOutputs, UpOutcome

_LONG_S = 20.0
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LAUNCH = Intent(1, 1, 1, NOW, Launch("cpu", ("cpu-1", "cpu-2"), "job 7 needs it", (7,)))


class StandIn:
    """A loop whose turns are given."""

    def __init__(self, *turns: Turn) -> None:
        self._turns = list(turns)
        self.turned = threading.Event()
        self._last_turns = 0
        self.stopped = False
        self.is_at_work = False
        self.may_finish = threading.Event()
        self.may_finish.set()
        self.finished = 0

    def turn(self) -> Turn:
        if len(self._turns) > 1:
            return self._turns.pop(0)
        # The one before, of the same kind, has been told by then.
        self._last_turns += 1
        if self._last_turns == 2:
            self.turned.set()
        return self._turns[0]

    def finish(self) -> None:
        self.finished += 1
        self.is_at_work = not self.may_finish.is_set()

    def stop(self) -> None:
        self.stopped = True


class Scene:
    """A daemon in a folder, and what it said."""

    def __init__(self, folder: Path, *turns: Turn) -> None:
        self.folder = folder / "scaler"
        self.said: list[str] = []
        self.voice = Voice(self.folder, self.said.append, lambda: NOW)
        self.loop = StandIn(*turns)
        self.beside = ThreadPoolExecutor(1)
        self.daemon = Daemon(self.loop, self.voice, self.folder, {}, Wake())  # type: ignore[arg-type]

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "log.jsonl").read_text().splitlines()]

    def ask(self, page: str) -> tuple[int, str]:
        """What a page answers."""
        at = json.loads((self.folder / ADDRESS_FILE).read_text())
        assert at["pid"] == os.getpid()
        try:
            with urllib.request.urlopen(f"http://{at['host']}:{at['port']}{page}", timeout=_LONG_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def running(self) -> threading.Thread:
        """It runs, and has come to its last turn."""
        thread = threading.Thread(target=self.daemon.run, args=(Listen(), self.beside))
        thread.start()
        assert self.loop.turned.wait(_LONG_S)
        return thread


Make = Callable[..., Scene]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Make]:
    """Makes the scene of a test."""
    with ExitStack() as closing:

        def make(*turns: Turn) -> Scene:
            scene = Scene(tmp_path, *turns)
            closing.callback(scene.voice.close)
            closing.callback(scene.beside.shutdown)
            return scene

        yield make


def leads() -> Turn:
    return Turn("leads", 0.01)


def test_an_order_to_end_that_comes_as_it_is_woken_is_not_forgotten(made: Make) -> None:
    scene = made(Turn("leads", 60.0))

    class Ordered(Wake):
        def clear(self) -> None:
            scene.daemon.end()
            super().clear()

    # The moment in between is what is tried.
    scene.daemon._wake = wake = Ordered()
    wake.set()
    thread = threading.Thread(target=scene.daemon.run, args=(None, scene.beside), daemon=True)
    thread.start()
    thread.join(_LONG_S)
    assert not thread.is_alive()


def test_it_serves_its_pages_until_it_is_ended(made: Make) -> None:
    scene = made(leads(), leads())
    thread = scene.running()
    try:
        code, text = scene.ask("/healthz")
        assert (code, json.loads(text)["role"]) == (200, "leads")
        code, text = scene.ask("/metrics")
        assert code == 200
        assert 'tidepool_role{role="leads"} 1.0' in text.splitlines()
        assert scene.ask("/nothing")[0] == 404
    finally:
        scene.daemon.end()
        thread.join(_LONG_S)
    assert not thread.is_alive()
    assert scene.loop.stopped
    assert not (scene.folder / ADDRESS_FILE).exists()


def test_while_it_holds_still_it_is_not_well(made: Make) -> None:
    scene = made(leads(), Turn("holds still", 0.01, "slurmctld does not answer"))
    thread = scene.running()
    try:
        code, text = scene.ask("/healthz")
        assert (code, json.loads(text)["text"]) == (503, "slurmctld does not answer")
    finally:
        scene.daemon.end()
        thread.join(_LONG_S)


def test_trouble_is_said_once_and_so_is_its_end(made: Make) -> None:
    still = Turn("holds still", 0, "slurmctld does not answer")
    scene = made(leads(), still, still, still, leads(), leads())
    for _ in range(6):
        scene.daemon.once()
    lines = [line.partition(" ")[2] for line in scene.said]
    assert lines == ["holds still: slurmctld does not answer", "the scaler goes on"]
    assert [entry["event"] for entry in scene.log()] == ["holds-still", "goes-on"]


def test_the_end_waits_for_the_up_that_is_under_way_and_leads_meanwhile(made: Make) -> None:
    scene = made(leads(), leads())
    scene.loop.is_at_work = True
    scene.loop.may_finish.clear()
    thread = scene.running()
    scene.daemon.end()
    deadline = time.monotonic() + _LONG_S
    while scene.loop.finished < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert thread.is_alive()
    scene.loop.may_finish.set()
    thread.join(_LONG_S)
    assert (scene.loop.is_at_work, scene.loop.stopped) == (False, True)


def test_once_is_one_turn_that_decides_and_its_end(made: Make) -> None:
    scene = made(Turn("leads", 0), leads(), Turn("holds still", 1, "never asked for"))
    scene.loop.is_at_work = True
    assert scene.daemon.only_once(scene.beside).again_in_s == 0.01
    assert (scene.loop.finished, scene.loop.stopped) == (1, True)


# What is said


def test_what_it_does_is_said_to_people_written_down_and_counted(made: Make) -> None:
    scene = made(leads())
    say = scene.voice.say
    say("decided", actions=1, took_s=0.02)
    say("intends", intent=LAUNCH)
    say("up-begins", nodes=("cpu-1", "cpu-2"), refresh=())
    failed = {"cpu-2": Failure("boot", "node cpu-2 is not up after 60 s\nits log ends")}
    say("up-ended", outcome=UpOutcome(frozenset({"cpu-1"}), frozenset(), failed, 1.25))
    lines = [line.partition(" ")[2] for line in scene.said]
    assert lines == [
        "launch cpu-[1-2]: job 7 needs it",
        "an `up` for cpu-[1-2]",
        "the `up` took 1.2 s: made cpu-1; cpu-2 failed (boot): node cpu-2 is not up after 60 s",
    ]
    events = {entry["event"]: entry for entry in scene.log()}
    assert events["intends"]["intent"]["nodes"] == "cpu-[1-2]"
    assert events["up-ended"]["outcome"]["failed"]["cpu-2"]["cause"] == "boot"
    counted = scene.voice.metrics.text().decode()
    for line in (
        'tidepool_launches_total{fleet="cpu"} 2.0',
        'tidepool_node_failures_total{cause="boot"} 1.0',
        "tidepool_up_duration_seconds_count 1.0",
        "tidepool_decision_duration_seconds_count 1.0",
    ):
        assert line in counted.splitlines()
    assert scene.folder.stat().st_mode & 0o077 == 0


def test_machines_of_pools_and_pods_that_wait_are_counted(made: Make) -> None:
    machines = {
        "shared-1": MachineView("shared", "slurm", "idle", "idle"),
        "shared-2": MachineView("shared", "kubernetes", "busy", "it runs the pods web"),
        "shared-3": MachineView("shared", None, "moving", "joining", "kubernetes"),
    }
    pods = {"default/web": WaitingPod("default/web", "coming", "shared-3 is on its way to Kubernetes")}
    told = StackOutputs("1", SPEC, {}, {}, {})
    seen = Observation(told, ClusterState(NOW, SPEC, (), ()), {}, {})
    decision = Decision(NOW, (), {}, {}, {}, Memory(), waiting_pods=pods, machines=machines)
    scene = made(Turn("leads", 0.01, "", seen, decision))
    move = Convert("shared", ("shared-3",), "kubernetes", "pod default/web needs it", pods=("default/web",))
    scene.voice.say("intends", intent=Intent(1, 1, 1, NOW, move))
    assert scene.said[-1].endswith("convert shared-3 to kubernetes: pod default/web needs it")
    scene.daemon.once()
    counted = scene.voice.metrics.text().decode().splitlines()
    for line in (
        'tidepool_pool_moves_total{pool="shared",to="kubernetes"} 1.0',
        'tidepool_pool_machines{pool="shared",role="slurm"} 1.0',
        'tidepool_pool_machines{pool="shared",role=""} 1.0',
        'tidepool_pods_pending{standing="coming"} 1.0',
    ):
        assert line in counted


@pytest.mark.parametrize(
    ("name", "said", "line"),
    [
        ("ended", {"intent": Intent(1, 1, 1, NOW, Drain("cpu", ("cpu-1",), "idle"), "done", NOW)}, ""),
        (
            "ended",
            {
                "intent": Intent(
                    1, 1, 1, NOW, Remove("cpu", ("cpu-1",), "idle"), "overtaken", NOW, "it has jobs"
                )
            },
            "remove cpu-1: overtaken: it has jobs",
        ),
        (
            "occupied",
            {"text": "pid 7", "retries": 1},
            "somebody is at work on the stack, and is waited for: pid 7",
        ),
        ("occupied", {"text": "pid 7", "retries": 2}, ""),
    ],
)
def test_what_is_no_news_is_not_said(made: Make, name: str, said: dict[str, Any], line: str) -> None:
    scene = made(leads())
    scene.voice.say(name, **said)
    assert [each.partition(" ")[2] for each in scene.said] == ([line] if line else [])


def test_where_its_folder_is_taken_away_it_goes_on(made: Make) -> None:
    scene = made(leads())
    scene.daemon.once()
    scene.voice.say("leads", epoch=1)
    shutil.rmtree(scene.folder)
    scene.voice.say("leads", epoch=2)
    assert [entry["epoch"] for entry in scene.log()] == [2]


def test_an_address_that_is_not_to_be_had_is_told(made: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        scene = made(leads())
        with pytest.raises(NoAddress, match="in use"):
            scene.daemon.run(Listen(port=other.getsockname()[1]), scene.beside)


# Beside it


def test_a_supervisor_is_told(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(path)
        notify({"NOTIFY_SOCKET": path}, "READY=1", "STATUS=leads")
        assert supervisor.recv(100) == b"READY=1\nSTATUS=leads"
    notify({"NOTIFY_SOCKET": path}, "READY=1")
    notify({}, "READY=1")


def test_a_process_that_is_gone_is_known_to_be() -> None:
    assert not is_gone(this_process())
    code = "from tidepool.journals.processes import this_process; print(this_process())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert is_gone(said.stdout.strip())


def test_of_others_nothing_is_known() -> None:
    host, pid, life = this_process().split("/", 2)
    boot, namespace, ticks = life.split("/")
    # This process's id, given to another that began at another time, is a process that is gone.
    assert is_gone(f"{host}/{pid}/{boot}/{namespace}/{int(ticks) - 1}")
    for unknown in (
        f"elsewhere/{pid}/{boot}/{namespace}/1",
        f"{host}/{pid}/another-boot/{namespace}/1",
        f"{host}/{pid}/{boot}/1/1",
        f"{host}/x/{life}",
        "simulated",
        "",
    ):
        assert not is_gone(unknown), unknown
