"""`SimulatedSlurm`: a slurmctld, and a slurmd process for each node, which runs real processes.

Debian's Slurm is built with `--enable-multiple-slurmd`, so each slurmd is told its name by -N, and its port by its configuration.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tidepool.lab.errors import LabError, SchedulerFailed
from tidepool.lab.scale.cluster import Times, Waits, alive, pids_of, spawn, wait_for
from tidepool.lab.scale.namespaces import ADDRESS, FOLDER
from tidepool.lab.scale.slurm_files import (
    FULL,
    MOST_NODES,
    PARTITION,
    JobEvent,
    controller_conf,
    job_events,
    node_conf,
)

_PROGRAMS: Final = ("slurmctld", "slurmd", "munged", "sbatch", "sinfo", "scontrol")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A file of its own says by its time, on a tmpfs, when the job's first process ran.
_STARTS: Final = (
    '#!/bin/sh\n: >"{folder}/${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}_${{SLURM_ARRAY_TASK_ID:-0}}"\n'
)
_STAYS: Final = "#!/bin/sh\nexec sleep infinity\n"
_COMMAND_S: Final = 60.0


def lacking() -> tuple[str, ...]:
    """Return what this machine lacks, with the remedy."""
    if lacks := [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]:
        return (
            f"Slurm is not installed ({', '.join(lacks)}); apt install slurmctld slurmd slurm-client munge",
        )
    return ()


class SimulatedSlurm:
    """A `SimulatedCluster`; in `namespaces` of its own.

    Args:
        parameters: SchedulerParameters; "" leaves all as they are where nobody says anything.
    """

    def __init__(self, nodes: int, parameters: str, waits: Waits) -> None:
        if not 1 <= nodes <= MOST_NODES:
            raise LabError(
                f"Slurm cannot have {nodes} simulated nodes here; from 1 to {MOST_NODES:,} have ports"
            )
        self._nodes = nodes
        self._parameters = parameters
        self._waits = waits
        self._started = FOLDER / "started"
        self._log = FOLDER / "slurmctld.log"
        self._environment = {"PATH": _PATH, "TZ": "UTC", "SLURM_CONF": str(FOLDER / "slurm.conf")}
        self._queued = 0

    def start(self) -> None:
        self._write_files()
        munged = self._spawn_munged()
        controller = spawn(("slurmctld", "-D"), FOLDER / "slurmctld.out", self._environment)
        wait_for(lambda: self._answers(controller), bool, 60, "slurmctld answers", 0.05)
        for number in range(self._nodes + 1):
            conf = FOLDER / "nodes" / f"{number}.conf"
            conf.write_text(node_conf(FOLDER, socket.gethostname(), ADDRESS, number))
            name = f"n{number}" if number else FULL
            spawn(("slurmd", "-D", "-N", name, "-f", str(conf)), FOLDER / "slurmd.out", self._environment)
        wait_for(
            self.ready,
            lambda ready: ready == self._nodes,
            self._waits.ready_s,
            f"{self._nodes} nodes are idle",
            0.3,
        )
        alive(munged, FOLDER / "munged.out")
        self._submit(_STAYS, partition=FULL)
        self._wait_for_full()

    def ready(self) -> int:
        said = self._ask("sinfo", "--noheader", f"--partition={PARTITION}", "--states=idle", "--format=%D %T")
        return sum(int(line.split()[0]) for line in said.splitlines() if line.split()[1] == "idle")

    def queue(self, count: int) -> None:
        more = count - self._queued
        with ThreadPoolExecutor(os.cpu_count()) as several:
            for _ in several.map(lambda _: self._submit(_STAYS, partition=FULL), range(more)):
                pass
        self._queued = max(count, self._queued)

    def launch(self, count: int) -> Sequence[Times]:
        seen = self._log.stat().st_size
        submitted_s = time.time()
        array = (f"--array=0-{count - 1}",) if count > 1 else ()
        job = self._submit(_STARTS.format(folder=self._started), *array)
        limit_s = self._waits.launch_s
        files = [self._started / f"{job}_{task}" for task in range(count)]
        wait_for(
            lambda: sum(1 for _ in self._started.iterdir()),
            lambda there: there == count,
            limit_s,
            f"{count} jobs start",
        )
        wait_for(
            lambda: self._count_done(job, seen),
            lambda done: done == count,
            limit_s,
            f"{count} jobs are done",
            0.1,
        )
        decided = {
            each.task: each.at_s for each in self._events(seen) if each.job == job and each.what == "decided"
        }
        times = [Times(submitted_s, decided[task], file.stat().st_mtime) for task, file in enumerate(files)]
        for file in files:
            file.unlink()
        return times

    def scheduler_pids(self) -> Iterable[int]:
        return pids_of("slurmctld", "slurmscriptd")

    def node_pids(self) -> Iterable[int]:
        return pids_of("slurmd")

    def versions(self) -> Mapping[str, str]:
        return {
            "slurm": self._ask("sinfo", "--version").removeprefix("slurm-wlm ").removeprefix("slurm ").strip()
        }

    def settings(self) -> Mapping[str, str]:
        return {"SchedulerParameters": self._parameters} if self._parameters else {}

    def _write_files(self) -> None:
        for folder in (self._started, FOLDER / "nodes", FOLDER / "state"):
            folder.mkdir()
        conf = controller_conf(FOLDER, socket.gethostname(), ADDRESS, self._nodes, self._parameters)
        (FOLDER / "slurm.conf").write_text(conf)
        (FOLDER / "cgroup.conf").write_text("")
        key = FOLDER / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))

    def _spawn_munged(self) -> subprocess.Popen[bytes]:
        files = {
            "socket": "socket",
            "pid-file": "pid",
            "log-file": "log",
            "seed-file": "seed",
            "key-file": "key",
        }
        argv = [f"--{option}={FOLDER}/munge.{end}" for option, end in files.items()]
        log = FOLDER / "munged.out"
        munged = spawn(("munged", "--foreground", "--force", *argv), log, self._environment)

        def listens() -> bool:
            alive(munged, log)
            return (FOLDER / "munge.socket").exists()

        wait_for(listens, bool, 30, "munged listens")
        return munged

    def _answers(self, controller: subprocess.Popen[bytes]) -> bool:
        alive(controller, FOLDER / "slurmctld.out")
        return self._run("scontrol", "ping").returncode == 0

    def _wait_for_full(self) -> None:
        def state() -> str:
            return self._ask("sinfo", "--noheader", f"--partition={FULL}", "--format=%T").strip()

        wait_for(state, lambda said: said == "allocated", 60, f"the node {FULL} is taken", 0.1)

    def _submit(self, script: str, *options: str, partition: str = PARTITION) -> int:
        argv = ("sbatch", "--parsable", "--output=/dev/null", f"--partition={partition}", *options)
        return int(self._ask(*argv, stdin=script))

    def _count_done(self, job: int, seen: int) -> int:
        return sum(each.what == "done" and each.job == job for each in self._events(seen))

    def _events(self, seen: int) -> Iterable[JobEvent]:
        """Return what the log says since it was so many bytes long."""
        with self._log.open(errors="replace") as log:
            log.seek(seen)
            return tuple(job_events(log))

    def _ask(self, *argv: str, stdin: str = "") -> str:
        done = self._run(*argv, stdin=stdin)
        if done.returncode:
            raise SchedulerFailed(f"{argv[0]} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def _run(self, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            input=stdin,
            env=self._environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )
