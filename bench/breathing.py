"""A cluster that breathes: how long jobs wait for nodes that are made for them, and how long idle nodes stay. Needs root.

Real Slurm, real machines, real jobs, on this machine. Two workloads, each from zero nodes:

- *bursts*: 1 to 8 jobs at a time, each of which needs a node of its own; the next burst begins when all nodes are gone.
- *waves*: jobs of a core or two that come in waves closer together and further apart than the idle time-out.

What is measured is outside of the scaler: a job writes when it begins and ends, and where; machines are seen in the
data folder. Side by side, turn about: the scaler's own way (`slots`), and Slurm's power saving (`power_save`).

    python bench/breathing.py [--modes slots,power_save] [--jobs 50] [--waves 200] [--write docs/benchmarks/breathing.md]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench import engine as engine_bench  # noqa: E402
from bench.local import TIDEPOOL, scratch  # noqa: E402
from bench.page import add_page_option  # noqa: E402
from demo.breathing import AsUser  # noqa: E402
from tidepool.clients.slurm import JobRequest, JobState, Slurm  # noqa: E402
from tidepool.infrastructures.connection import transport  # noqa: E402

STACK: Final = "breathing"
IDLE_S: Final = 5
CPUS: Final = 2
MOST: Final = 16
#: Of the issue, in seconds.
P50_S, P95_S, GONE_S, OVER = 3.0, 6.0, 5.0, 1.2
_FOLDER: Final = "/home/researcher/jobs"
_SCRIPT: Final = """\
#!/bin/sh
echo $(date +%s.%N) $(hostname) > {folder}/$SLURM_JOB_ID.began
sleep {run_s}
date +%s.%N > {folder}/$SLURM_JOB_ID.ended
"""
_LIMIT_S: Final = 180.0
_NODE: Final = re.compile(r"cpu-[0-9]+")


@dataclass(frozen=True, slots=True)
class Ran:
    """A job: when it was submitted, began and ended, in seconds of the clock; on which node; how it ended."""

    submitted: float
    began: float
    ended: float
    node: str
    state: JobState
    restarts: int

    @property
    def waited_s(self) -> float:
        """From before its submission to its first instruction."""
        return self.began - self.submitted


@dataclass
class ObservedMachines:
    """The machines of nodes, as they appear and go: name, from when, until when (None: it is there)."""

    lives: list[tuple[str, float, float | None]] = field(default_factory=list)

    def look(self, names: set[str], now: float) -> None:
        """What is there now."""
        there = {name for name, _, until in self.lives if until is None}
        self.lives = [
            (name, since, now if until is None and name not in names else until)
            for name, since, until in self.lives
        ]
        self.lives += [(name, now, None) for name in sorted(names - there)]


class Cluster:
    """A stack without nodes, its daemon, and somebody who submits jobs."""

    def __init__(self, folder: Path, images: Path, mode: str) -> None:
        self._folder = folder
        folder.mkdir()
        for name in (".venv", "__main__.py", "Pulumi.yaml", "images", "playbooks", "provider"):
            (folder / name).symlink_to(ROOT / name)
        self._data = folder / "data"
        self._environment = {**os.environ, "TIDEPOOL_DATA": str(self._data), "TIDEPOOL_IMAGES": str(images)}
        fleet = {
            "name": "cpu",
            "subnet": "10.79.8.0/24",
            "max_nodes": MOST,
            "shape": {"cpus": CPUS, "memory_mib": 256},
            "idle_timeout_s": IDLE_S,
        }
        spec = {
            "name": STACK,
            "network": "10.79.0.0/16",
            "fleets": [fleet],
            "partitions": [{"name": "main"}],
            "scaling": {"mode": mode},
        }
        document = json.dumps({"config": {"cluster:spec": spec}})
        (folder / f"Pulumi.{STACK}.yaml").write_text(document)
        self.observed = ObservedMachines()

    @contextmanager
    def breathing(self) -> Iterator[None]:
        """It is up, and its daemon runs."""
        self._run("up", "--yes")
        try:
            log = (self._folder / "scale.log").open("w")
            daemon = subprocess.Popen(
                [str(TIDEPOOL), "--stack", STACK, "scale"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            stop = threading.Event()
            watcher = threading.Thread(target=self._watch, args=(stop,))
            watcher.start()
            try:
                yield
            finally:
                stop.set()
                watcher.join()
                daemon.send_signal(signal.SIGTERM)
                daemon.wait(30)
        except BaseException:
            sys.stderr.write((self._folder / "scale.log").read_text()[-4000:])
            raise
        finally:
            self._run("down", "--yes", "--force", "--purge")

    def submit(self, jobs: Sequence[Mapping[str, Any]]) -> dict[int, float]:
        """Submit ``jobs``, one after another as a researcher does; when each was submitted, by its id."""
        submitted = {}
        with self._slurm() as slurm:
            for job in jobs:
                script = _SCRIPT.format(folder=_FOLDER, run_s=job["run_s"])
                now = time.time()
                more = {key: value for key, value in job.items() if key != "run_s"}
                request = JobRequest(
                    script, work_dir="/home/researcher", output="/dev/null", time_limit_s=120, **more
                )
                submitted[slurm.submit(request).job_id] = now
        return submitted

    def results(self, submitted: Mapping[int, float]) -> list[Ran]:
        """Wait for the jobs' end."""
        with self._slurm() as slurm:
            _until(lambda: not slurm.jobs(), "all jobs have ended")
            records = {job_id: slurm.job(job_id)[0] for job_id in submitted}
        told = self._login(["grep", "-r", ".", _FOLDER]).splitlines()
        said = dict(line.removeprefix(f"{_FOLDER}/").split(":", 1) for line in told)
        found = []
        for job_id, moment in submitted.items():
            began, node = said[f"{job_id}.began"].split()
            ended = float(said[f"{job_id}.ended"])
            record = records[job_id]
            found.append(Ran(moment, float(began), ended, node, record.state, record.restarts))
        return found

    def until_empty(self) -> None:
        """Until no machine of a node is there."""
        _until(lambda: all(until is not None for _, _, until in self.observed.lives), "all nodes are gone")

    def prepare(self) -> None:
        """Where jobs write."""
        self._login(["mkdir", "-p", _FOLDER])

    def _login(self, argv: Sequence[str]) -> str:
        done = self._user().run(argv, timeout_s=30)
        if done.exit_code:
            raise SystemExit(f"{argv}: {done.stderr}")
        return done.stdout

    def _user(self) -> AsUser:
        way = transport({"kind": "local", "stack": STACK, "machine": "login-1"}, self._data)
        return AsUser(way, "researcher")

    def _slurm(self) -> Slurm:
        return Slurm(self._user())

    def _watch(self, stop: threading.Event) -> None:
        machines = self._data / STACK / "machines"
        while not stop.wait(0.05):
            # Beside them, for a moment, what a machine is made in or taken apart in.
            names = {path.name for path in machines.iterdir() if _NODE.fullmatch(path.name)}
            self.observed.look(names, time.time())

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            [str(TIDEPOOL), "--stack", STACK, *arguments],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        if done.returncode:
            raise SystemExit(
                f"tidepool {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            )


def bursts(cluster: Cluster, jobs: int, tell: Callable[[str], None]) -> tuple[list[Ran], list[float]]:
    """At least ``jobs`` jobs, in bursts from zero nodes; with them the seconds from idle to gone, for each machine."""
    ran: list[Ran] = []
    gone: list[float] = []
    sizes = itertools.cycle([1, 2, 4, 8])
    while len(ran) < jobs:
        size = next(sizes)
        lives = len(cluster.observed.lives)
        now = cluster.results(cluster.submit([{"exclusive": True, "run_s": 1}] * size))
        cluster.until_empty()
        ran += now
        for name, _, until in cluster.observed.lives[lives:]:
            ends = [each.ended for each in now if each.node == name]
            if ends and until is not None:
                gone.append(until - max(ends))
        tell(f"{size} at once: waited {', '.join(f'{each.waited_s:.2f}' for each in now)} s")
    return ran, gone


def waves(cluster: Cluster, jobs: int, tell: Callable[[str], None]) -> tuple[list[Ran], int, int]:
    """So many jobs in ten waves; with them how many machines were started, and the least that were possible.

    A job has one core or two, and nodes have two. The least is what each wave needs when it is packed perfectly, and
    nodes stay for a wave that comes within the idle time-out.
    """
    chosen = random.Random(5)
    ran: dict[int, float] = {}
    lives, least, there = len(cluster.observed.lives), 0, 0
    for number in range(10):
        wave = [
            {"tasks": chosen.choice([1, 1, 2]), "memory_per_cpu_mib": 100, "run_s": 2}
            for _ in range(jobs // 10)
        ]
        need = min(MOST, -(-sum(int(job["tasks"]) for job in wave) // CPUS))
        least += max(0, need - there)
        ran |= cluster.submit(wave)
        cluster.results(ran)
        tell(f"wave {number + 1}: {len(wave)} jobs ended")
        if number % 2:
            cluster.until_empty()
            there = 0
        else:
            there = max(there, need)
    return cluster.results(ran), len(cluster.observed.lives) - lives, least


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of them are."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(
    folder: Path, images: Path, mode: str, jobs: int, in_waves: int, tell: Callable[[str], None]
) -> dict[str, str]:
    """All of it in one mode: what is shown, by row."""
    cluster = Cluster(folder, images, mode)
    with cluster.breathing():
        cluster.prepare()
        ran, gone = bursts(cluster, jobs, tell)
        some, started, least = waves(cluster, in_waves, tell)
        cluster.until_empty()
    waits, over = [each.waited_s for each in ran], [seconds - IDLE_S for seconds in gone]
    wave_waits = [each.waited_s for each in some]
    every = [*ran, *some]
    completed = sum(each.state is JobState.COMPLETED for each in every)
    return {
        f"bursts: jobs from zero nodes, {len(ran)}": "",
        "pending to running, p50": f"{statistics.median(waits):.2f} s",
        "pending to running, p95": f"{percentile(waits, 0.95):.2f} s",
        "pending to running, longest": f"{max(waits):.2f} s",
        "idle to gone beyond the time-out, p50": f"{statistics.median(over):.2f} s",
        "idle to gone beyond the time-out, longest": f"{max(over):.2f} s",
        f"waves: jobs, {len(some)}": "",
        "pending to running in waves, p50": f"{statistics.median(wave_waits):.2f} s",
        "pending to running in waves, p95": f"{percentile(wave_waits, 0.95):.2f} s",
        "machines started": f"{started} (least possible {least}: {started / least:.2f} x)",
        "jobs COMPLETED": f"{completed} of {len(every)}",
        "jobs requeued": str(sum(each.restarts for each in every)),
    }


TARGETS: Final = {
    "pending to running, p50": f"{P50_S:g} s",
    "pending to running, p95": f"{P95_S:g} s",
    "idle to gone beyond the time-out, longest": f"{GONE_S:g} s",
    "machines started": f"{OVER:g} x",
    "jobs COMPLETED": "all",
    "jobs requeued": "0",
}


def table(figures: Mapping[str, Mapping[str, str]]) -> str:
    """Markdown: a column for each mode."""
    lines = [f"| | {' | '.join(figures)} | *target* |", "|---|" + "---:|" * (len(figures) + 1)]
    for row in next(iter(figures.values())):
        cells = [figures[mode].get(row, "") for mode in figures]
        lines.append(f"| {row} | {' | '.join(cells)} | {TARGETS.get(row, '')} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--modes", default="slots,power_save")
    parser.add_argument("--jobs", type=int, default=50, help="in bursts, at least")
    parser.add_argument("--waves", type=int, default=200, help="jobs, in ten waves")
    parser.add_argument(
        "--images", type=Path, help="a store with the golden image (default: the data folder's)"
    )
    add_page_option(parser)
    given = parser.parse_args()
    images = given.images or Path(os.environ.get("TIDEPOOL_DATA", "/var/lib/tidepool")) / "images"
    figures = {}
    for mode in given.modes.split(","):

        def tell(line: str, mode: str = mode) -> None:
            sys.stderr.write(f"{mode}: {line}\n")

        with scratch() as folder:
            figures[mode] = measure(folder / "project", images, mode, given.jobs, given.waves, tell)
    text = (
        f"{time.strftime('%Y-%m-%d')}, {engine_bench.machine()}; idle time-out {IDLE_S} s, nodes of {CPUS} cores, at "
        f"most {MOST}.\n\n{table(figures)}\n"
    )
    if given.write:
        given.write.write(text)
    else:
        sys.stdout.write(text)


def _until(what: Callable[[], bool], words: str) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while not what():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {_LIMIT_S:g} s: {words}")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
