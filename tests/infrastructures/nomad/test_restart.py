"""What becomes of a daemon that ends: what Nomad is told of it, and what its task does when a shell runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.nomad.test_jobs import (
    CONTROLLER,
    HOME,
    MUNGE,
    MUNGED,
    SEATS,
    SECOND,
    SLURMCTLD,
    fleet,
    spoken,
)
from tidepool.cluster.boot import Service
from tidepool.infrastructures.nomad.jobs import container_job, munge_job, own_job
from tidepool.infrastructures.nomad.machine import changed_script, run_script
from tidepool.infrastructures.nomad.options import Container

EXPORTER = Container(name="exporter", image="exporter:1", host="alpha")


def test_whatever_ends_is_started_again_on_its_host_for_as_long_as_it_takes() -> None:
    jobs = [
        fleet(),
        spoken(munge_job(HOME, MUNGE)),
        spoken(own_job(HOME, "ctl", CONTROLLER, SEATS, MUNGED)),
        spoken(container_job(HOME, EXPORTER)),
    ]
    for job in jobs:
        for group in job["TaskGroups"]:
            # Never more attempts in the interval than there may be: nothing ever fails for good.
            assert group["RestartPolicy"] == {
                "Attempts": 30,
                "Interval": 60 * SECOND,
                "Delay": 2 * SECOND,
                "Mode": "delay",
            }


def test_a_service_that_cannot_be_started_is_tried_again_soon_and_a_system_job_is_not_told_of_it() -> None:
    for group in spoken(own_job(HOME, "ctl", CONTROLLER, SEATS, MUNGED))["TaskGroups"]:
        assert group["ReschedulePolicy"] == {
            "Unlimited": True,
            "Delay": 5 * SECOND,
            "DelayFunction": "constant",
        }
    # Nomad refuses a system job that says something of it.
    assert "ReschedulePolicy" not in fleet()["TaskGroups"][0]


def test_daemons_are_main_tasks_whatever_their_restart_for_a_change_waits_until_others_end() -> None:
    """A poststart task that is no sidecar would stay ended, and its group would not be well before it has."""
    for restart in ("always", "on-failure"):
        daemon = Service("slurmctld", ("/usr/sbin/slurmctld",), ready="tcp:6817", restart=restart)
        machine = type(CONTROLLER)((daemon,))
        (group,) = spoken(own_job(HOME, "ctl", machine, {"ctl": "10.77.0.2"}, MUNGED))["TaskGroups"]
        assert [task["Name"] for task in group["Tasks"] if "Lifecycle" not in task] == ["slurmctld"]


def test_one_that_is_always_there_is_the_tasks_own_process() -> None:
    assert "exec nsenter" in run_script(SLURMCTLD, (), "")
    assert "hold" not in run_script(SLURMCTLD, (), "")


class Held:
    """A daemon of a task, which ends as it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.how = folder, folder / "log", folder / "how"
        self.asked = folder / "alloc/start/one"
        self.pid = folder / "task/pid"

    @property
    def starts(self) -> int:
        return self.log.read_text().count("started") if self.log.exists() else 0

    def ends(self, exit_code: int) -> None:
        self.how.write_text(f"{exit_code}\n")

    def until(self, holds: Any, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, "it did not come to pass"
            time.sleep(0.02)


@pytest.fixture
def held(tmp_path: Path) -> Held:
    """Its folders, and an ``nsenter`` that stays where it is."""
    for name in ("bin", "task", "alloc/start"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "alloc/made").touch()
    (tmp_path / "task/install").touch()
    (tmp_path / "bin/nsenter").write_text(
        '#!/bin/sh\nuntil test "$1" = --; do shift; done\nshift\nexec "$@"\n'
    )
    (tmp_path / "bin/nsenter").chmod(0o755)
    os.mkfifo(tmp_path / "how")
    return Held(tmp_path)


@contextmanager
def started(held: Held, hears: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Its task, as Nomad starts it. It ends as it is told; or hears signals, and else stays."""
    says = f"echo started >>{held.log}"
    ends = f"read how <{held.how}; exit $how"
    does = f"{hears}; {says}; while :; do sleep 0.05; done" if hears else f"{says}; {ends}"
    daemon = Service("one", ("/bin/sh", "-c", does), restart="on-failure")
    script = held.folder / "run"
    runs = run_script(daemon, (), "").replace("/run/tidepool", str(held.folder))
    # The limits of the tests stay as they are.
    script.write_text(runs.replace("/sys/fs/cgroup", f"{held.folder}/cgroup"))
    told = {
        "PATH": f"{held.folder}/bin:{os.environ['PATH']}",
        "NOMAD_ALLOC_ID": "alloc",
        "NOMAD_TASK_DIR": f"{held.folder}/task",
    }
    task = subprocess.Popen(["sh", str(script)], env=told, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        yield task
    finally:
        with suppress(ProcessLookupError):
            os.killpg(task.pid, signal.SIGKILL)
        task.wait()


def test_one_that_failed_ends_its_task_as_it_did_so_that_nomad_starts_it_again(held: Held) -> None:
    with started(held) as task:
        held.ends(3)
        assert task.wait(60) == 3
        assert not held.pid.exists()


def test_one_that_ended_on_purpose_is_held_until_it_is_asked_for(held: Held) -> None:
    """As a slurmctld that a backup took over from: Nomad, which would start it again, does not hear of it."""
    with started(held) as task:
        held.ends(0)
        held.until(lambda: held.starts == 1 and not held.pid.exists())
        time.sleep(0.5)
        assert (held.starts, task.poll()) == (1, None)
        held.asked.touch()
        held.until(lambda: held.starts == 2)
        # One that is asked for before it ends starts again, and that is over by it.
        held.asked.touch()
        held.ends(0)
        held.until(lambda: held.starts == 3)
        held.ends(0)
        held.until(lambda: not held.pid.exists())
        time.sleep(0.5)
        assert (held.starts, task.poll()) == (3, None)
        task.terminate()
        assert task.wait(60) == 0


def test_one_that_runs_is_told_to_stop_and_waited_for(held: Held) -> None:
    with started(held, f"trap 'echo stopped >>{held.log}; exit 0' TERM") as task:
        held.until(lambda: held.starts == 1 and held.pid.exists())
        task.terminate()
        assert task.wait(60) == 0
        assert held.log.read_text().split() == ["started", "stopped"]


def test_another_slurm_conf_is_told_to_one_that_runs_and_no_mistake_where_none_does(held: Held) -> None:
    changed = held.folder / "changed"
    changed.write_text(changed_script().replace("/run/tidepool", str(held.folder)))
    told = {"PATH": os.environ["PATH"], "NOMAD_ALLOC_ID": "alloc", "NOMAD_TASK_DIR": f"{held.folder}/task"}
    with started(held, f"trap 'echo told >>{held.log}' HUP"):
        held.until(lambda: held.starts == 1 and held.pid.exists())
        subprocess.run(["sh", str(changed)], env=told, check=True)
        held.until(lambda: "told" in held.log.read_text())
    held.pid.unlink()
    subprocess.run(["sh", str(changed)], env=told, check=True)
