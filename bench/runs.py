"""Measure runs on this machine, from the command to the first job's first instruction and to the end; and kill 50 at random. Needs root.

A run has a controller, a login machine and a node, two jobs and two small outputs. *first* is from the command's start until the
first job's first instruction, *end* from the last output that is kept until the command has ended and the cluster is gone. Several
at once are so many commands, or one sweep, whose runs are forked from one process; then *first* is from the sweep's start, and the
end is the run's. *Processor* is what the commands, and all that they waited for, had of it for each run: no machines and no providers. Then
random runs are killed at random moments, all of their processes or the driver alone, and gone on with by --resume, by the
sweeper, or, half of them, by the service of runs, for which their clusters have tokens; some fail, some are cancelled, some pass
their deadline. At the end nothing may be left of any: what is there of each is counted after each kill, and when all have ended.

    python bench/runs.py [--rounds 10] [--at-once 5] [--kills 50] [--seed 1] [--write docs/benchmarks/runs.md]

Exit code 1 at the first fault: the same seed gives the same runs, but for when a kill strikes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench import engine as engine_bench  # noqa: E402
from bench.local import scratch  # noqa: E402
from bench.page import add_page_option  # noqa: E402
from tests.clients.slurm.real import free_port  # noqa: E402
from tests.golden import golden_store  # noqa: E402
from tests.infrastructures.local.outside import HOST, world  # noqa: E402
from tests.objectstore import ObjectStore  # noqa: E402
from tests.whole.cluster import until  # noqa: E402
from tests.whole.runs import Runs, descendants, ended, processes_of  # noqa: E402
from tidepool.runs.record import Run  # noqa: E402
from tidepool.runs.results import open_store  # noqa: E402

#: Both are small: what is measured is what a run needs beside its work.
SMALL: Final[Mapping[str, Any]] = {
    "name": "small",
    "jobs": [
        {"name": "first", "script": "#!/bin/sh\nmkdir -p out; date +%s.%N >out/began\n", "memory": 50},
        {"name": "second", "after": ["first"], "script": "#!/bin/sh\ncp out/began out/copy\n", "memory": 50},
    ],
    "outputs": ["out/*"],
    "deadline": "20",
}
#: The longest that a run of the storm is waited for, with all that befalls it.
_LONGEST_S: Final = 300.0
#: The service of runs sweeps so often, in seconds: what was killed while its cluster came up has no tokens.
_SWEPT_S: Final = 20
#: Between two looks whether it has ended.
_PAUSE_S: Final = 0.5
#: How often several are run at once.
_BATCHES: Final = 3
#: By outcome, how often it is meant.
_MEANT: Final[Mapping[str, int]] = {"succeeded": 7, "failed": 1, "cancelled": 1, "deadline": 1}


@dataclass(frozen=True, slots=True)
class Times:
    """Times of one run, in seconds."""

    first_s: float
    end_s: float
    whole_s: float


def measure(runs: Runs, name: str) -> Times:
    """Run the small workload once, as a person does."""
    words = runs.words({**SMALL, "name": name}, name=f"{name}.yaml")
    began = time.time()
    kept = 0.0
    with runs.begin(*words) as command:
        assert command.stdout is not None
        for line in command.stdout:
            event = json.loads(line)
            if event["event"] == "output":
                kept = time.time()
    ends = time.time()
    assert command.returncode == 0, (
        f"exit code {command.returncode}; see the logs in {runs.project.data / 'runs'}"
    )
    first = float(runs.read(event["run"], "out/began"))
    runs.check_ended(event["run"])
    return Times(first - began, ends - kept, ends - began)


def measure_sweep(runs: Runs, count: int) -> list[Times]:
    """Run the small workload so often as one sweep, all at once."""
    file = runs.write(SMALL, "sweep.yaml")
    words = ["sweep", runs.project.stack, file, "--results", runs.url, "--json", "--at-once", str(count)]
    began = time.time()
    with runs.begin(*words, "--vary", "fleets.cpu.max_nodes=4", "--repeat", str(count)) as command:
        said, _ = command.communicate(timeout=_LONGEST_S)
    assert command.returncode == 0, (
        f"exit code {command.returncode}; see the logs in {runs.project.data / 'runs'}"
    )
    ids = {json.loads(line)["run"] for line in said.partition("\n{\n")[0].splitlines()}
    assert len(ids) == count, ids
    found = []
    for id in ids:
        record = runs.check_ended(id)
        assert record.ended is not None
        ends = record.ended.timestamp()
        first, kept = float(runs.read(id, "out/began")), record.began["collecting/kept"].timestamp()
        found.append(Times(first - began, ends - kept, ends - began))
    return found


@dataclass
class Storm:
    """Random runs with random kills. ``service`` is where half of them have the service of runs: an address and a port of this host.

    ``struck`` counts what befell them, ``there`` what was there of them then, ``ended_by`` how they came to their end.
    """

    runs: Runs
    dice: random.Random
    service: str
    struck: Counter[str] = field(default_factory=Counter)
    there: Counter[str] = field(default_factory=Counter)
    ended_by: Counter[str] = field(default_factory=Counter)

    def one(self) -> Run:
        """A run of a random workload, killed up to three times."""
        meant = self.dice.choices([*_MEANT], [*_MEANT.values()])[0]
        words = self.runs.words(self._workload(meant))
        ways = ["--resume", "reap"]
        if self.dice.random() < 0.5:
            ways.append("the service of runs")
            words += ["--set", f"run_service.url=http://{self.service}"]
        known = {run.id for run in self.runs.journaled()}
        began = time.monotonic()
        kills = self.dice.choice([0, 1, 1, 2, 2, 3])
        told_to_end, served = False, ""
        while True:
            assert time.monotonic() - began < _LONGEST_S, f"it does not end: {words}"
            code = self._driven(words, served, is_killed=kills > 0)
            kills -= 1
            new = [run for run in self.runs.journaled() if run.id not in known]
            if not new:
                continue  # it was killed before it was ordered
            (run,) = new
            if not run.is_under_way:
                if not told_to_end and code is None:
                    self.ended_by["itself"] += 1
                self._until_gone("")
                return self._checked(run, meant, told_to_end)
            with suppress(OSError):  # what goes while it is counted
                self.there.update(_counted(self.runs, run.id))
            if meant == "cancelled" and not told_to_end:
                told_to_end = self.runs.run("run", "--cancel", run.id).returncode == 0
            by = self.dice.choice(ways)
            self.ended_by[by] += 1
            served = run.id if by == "the service of runs" else ""
            words = (
                ["run", "--resume", run.id, "--json"]
                if by == "--resume"
                else ["reap", "--results", self.runs.url]
            )
            if served:
                words += ["--listen", self.service, "--every", str(_SWEPT_S)]

    def _driven(self, words: Sequence[str], served: str, *, is_killed: bool) -> int | None:
        """Do a verb, and kill it at some moment; its exit code, None where it was killed.

        One that serves the run ``served`` never ends by itself, so it is ended when that run has.
        """
        command = self.runs.begin(*words)
        with command:
            if not is_killed:
                if served:
                    try:
                        self._until_ended(served)
                    finally:
                        command.kill()
                command.communicate(timeout=_LONGEST_S)
                return command.returncode
            with suppress(Exception):
                command.wait(self.dice.uniform(0.2, 9.0))
            if command.poll() is not None:
                return command.returncode
            blow = self.dice.choice(["driver", "everything"])
            self.struck[blow] += 1
            # Machines have process groups of their own: those are no part of it.
            for pid in [command.pid, *(descendants(command.pid) if blow == "everything" else ())]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return None

    def _until_ended(self, run: str) -> None:
        until(
            lambda: not any(each.is_under_way for each in self.runs.journaled() if each.id == run) or None,
            f"{run} has ended",
            _LONGEST_S,
            _PAUSE_S,
        )
        self._until_gone(run)

    def _until_gone(self, run: str) -> None:
        """Wait until nobody is at a run any more; at none, where none is named: what the killed have begun ends by itself."""
        data = self.runs.project.data
        until(lambda: processes_of(data, run) == [] or None, f"nobody drives {run}", pause_s=_PAUSE_S)

    def _workload(self, meant: str) -> Mapping[str, Any]:
        count = self.dice.randint(1, 4)
        size = self.dice.choice([0, 1000, 300_000, 20_000_000])
        jobs: list[dict[str, Any]] = [
            {
                "name": f"job-{i}",
                "after": [f"job-{i - 1}"] if i and self.dice.random() < 0.6 else [],
                "script": (
                    f"#!/bin/sh\nmkdir -p out; echo {i} >>out/ran-{i}\n"
                    f"yes 'job {i}, {self.dice.random()}' | head -c {size} >out/data-{i}\nsleep {self.dice.choice([0, 0, 1])}\n"
                ),
                "memory": 50,
            }
            for i in range(count)
        ]
        if meant == "failed":
            jobs[-1]["script"] += "exit 3\n"
        if meant in ("cancelled", "deadline"):
            jobs[-1]["script"] += "sleep 600 & wait\n"
        deadline = "0:15" if meant == "deadline" else "1:00" if meant == "cancelled" else "20"
        return {"name": "storm", "jobs": jobs, "outputs": ["out/*"], "deadline": deadline, "grace_s": 2}

    def _checked(self, run: Run, meant: str, told_to_end: bool) -> Run:
        record = self.runs.check_ended(run.id)
        allowed = {meant} if meant != "cancelled" or told_to_end else {"cancelled", "deadline"}
        if meant in ("cancelled", "deadline"):
            # Killed for so long that it passed, or over before anybody asked.
            allowed |= {"deadline"}
        assert record.outcome in allowed, (record.outcome, meant, record.because)
        if record.outcome in ("succeeded", "failed"):
            with closing(open_store(self.runs.url, self.runs.settings)) as store:
                for i in range(len(record.jobs)):
                    # None ran twice.
                    assert store.read(f"{run.id}/outputs/out/ran-{i}") == f"{i}\n".encode()
            assert all(output.is_verified for output in record.outputs)
        return record


def main() -> int:
    """Measure, kill, and print or write what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--at-once", type=int, default=5)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    add_page_option(parser)
    given = parser.parse_args()
    images = golden_store()
    load = os.getloadavg()[0]
    lines = [
        f"{time.strftime('%Y-%m-%d')}, {engine_bench.machine()}; at a load of {load:.1f} when it began.",
        "",
        "| | runs | first p50 s | first longest s | end p50 s | end longest s | whole p50 s | processor s of each |",
        "|---|---|---|---|---|---|---|---|",
    ]
    server = ObjectStore()
    try:
        with scratch() as folder:
            with ended(Runs.make(folder / "one", images)) as runs:
                measure(runs, "warm")
                in_s3 = Runs(runs.project, server.url("bench"), server.environment)
                count = given.at_once
                for what, times in {
                    "one, results in a folder": lambda: _in_turns(runs, given.rounds),
                    "one, results in S3": lambda: _in_turns(in_s3, given.rounds),
                    f"{count} at once, results in a folder": lambda: _at_once(runs, count),
                    f"{count} at once, results in S3": lambda: _at_once(in_s3, count),
                    f"{count} at once as a sweep, results in a folder": lambda: _swept(runs, count),
                    f"{count} at once as a sweep, results in S3": lambda: _swept(in_s3, count),
                }.items():
                    lines.append(_row(what, times))
                    sys.stderr.write(f"{lines[-1]}\n")
                runs.check_nothing_left()
            if given.kills:
                lines += _storm(folder / "storm", images, given.kills, given.seed)
    finally:
        server.close()
    text = "\n".join([*lines, ""])
    sys.stdout.write(text)
    if given.write:
        given.write.write(text)
    return 0


def _in_turns(runs: Runs, rounds: int) -> list[Times]:
    return [measure(runs, "small") for _ in range(rounds)]


def _at_once(runs: Runs, count: int) -> list[Times]:
    with ThreadPoolExecutor(count) as threads:
        names = [f"small{i}" for i in range(count)]
        return [each for _ in range(_BATCHES) for each in threads.map(partial(measure, runs), names)]


def _swept(runs: Runs, count: int) -> list[Times]:
    return [each for _ in range(_BATCHES) for each in measure_sweep(runs, count)]


def _row(what: str, measured: Callable[[], Sequence[Times]]) -> str:
    before = _processor_s()
    found = measured()
    processor_s = (_processor_s() - before) / len(found)
    firsts, ends = [each.first_s for each in found], [each.end_s for each in found]
    wholes = [each.whole_s for each in found]
    return (
        f"| {what} | {len(found)} | {median(firsts):.2f} | {max(firsts):.2f} | {median(ends):.2f} | {max(ends):.2f} | "
        f"{median(wholes):.2f} | {processor_s:.2f} |"
    )


def _processor_s() -> float:
    """Seconds of a processor of all processes that this one, and those that it waited for, have waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _storm(folder: Path, images: Path, count: int, seed: int) -> list[str]:
    """On a host of its own, whose service of runs clusters reach."""
    with world(), closing(ObjectStore()) as server:
        made = Runs.make(folder, images, server.url("storm"), server.environment)
        with ended(made) as runs:
            return _stormed(Storm(runs, random.Random(seed), f"{HOST}:{free_port()}"), count, seed)


def _stormed(storm: Storm, count: int, seed: int) -> list[str]:
    runs, began = storm.runs, time.monotonic()
    records = []
    for number in range(1, count + 1):
        records.append(storm.one())
        sys.stderr.write(f"{number}: {records[-1].id} {records[-1].outcome}; {dict(storm.struck)}\n")
    runs.check_nothing_left()
    with closing(open_store(runs.url, runs.settings)) as store:
        assert store.unfinished("") == []
        assert store.names("under-way/") == []
    left: Counter[str] = Counter()
    for record in records:
        left.update(_counted(runs, record.id))
    assert not left.total(), left
    outputs = [output for record in records for output in record.outputs if output.is_verified]
    outcomes = Counter(record.outcome for record in records)
    served = sum("run_service" in record.order.spec for record in records)
    return [
        "",
        f"{count} random runs with random kills, seed {seed}, in {(time.monotonic() - began) / 60:.0f} minutes:",
        "",
        "| | |",
        "|---|---|",
        f"| runs whose clusters have tokens once they are up | {served} |",
        f"| kills | {', '.join(f'{number} of {victim}' for victim, number in storm.struck.most_common())} |",
        f"| gone on with | {', '.join(f'{number} by {how}' for how, number in storm.ended_by.most_common())} |",
        f"| outcomes | {', '.join(f'{number} {outcome}' for outcome, number in outcomes.most_common())} |",
        f"| outputs, each there once with its checksum | {len(outputs)}, {sum(each.size for each in outputs) / 1e6:.0f} MB |",
        f"| there when they were killed, over all kills | {_told(storm.there)} |",
        f"| left behind | {_told(left)} |",
    ]


def _counted(runs: Runs, run: str) -> Mapping[str, int]:
    """How much of each kind is there of a run."""
    return {kind: len(found) for kind, found in runs.left(run).items()}


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in counts.items())


if __name__ == "__main__":
    if os.geteuid() != 0:
        raise SystemExit("machines are root's: run it with sudo")
    sys.exit(main())
