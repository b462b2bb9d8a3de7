"""The contract of schedulers: tests that each of them passes, against the real thing where a machine can run it.

class TestVolcano(SchedulerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def bench(cls) -> Iterator[Bench]: ...      a trial that has begun; it ends it

All tests of a class share one trial: names of jobs are each test's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from tidepool.lab.outcome import ProcessRecord
from tidepool.lab.schedulers.contract import JobState, Scheduler
from tidepool.lab.workload import Job, RunKernel, Sleep

FEATURES = frozenset({"gang", "array", "dependencies", "priority", "preemption"})
LONG = Sleep(120)
SHORT = Sleep(0.2)


@dataclass(frozen=True, slots=True)
class Bench:
    """A scheduler whose trial has begun.

    Attributes:
        machines: how many it has.
        cpus: processors of each.
        processes: reads what the processes of the trial wrote so far, by their jobs' names; times since the epoch.
        wait_s: how long anything may take.
    """

    scheduler: Scheduler
    machines: int
    cpus: int
    processes: Callable[[], Mapping[str, Sequence[ProcessRecord]]]
    wait_s: float = 60.0

    @property
    def all_cpus(self) -> int:
        return self.machines * self.cpus

    def needs(self, feature: str) -> None:
        """Skip the test where the scheduler has not got a feature."""
        if feature not in self.scheduler.can:
            pytest.skip(f"this scheduler has no {feature}")

    def until(
        self, names: Iterable[str], is_so: Callable[[JobState], bool], what: str
    ) -> dict[str, JobState]:
        """Watch until it is so of all these jobs; returns their last states."""
        wanted, last = set(names), dict[str, JobState]()
        deadline = time.monotonic() + self.wait_s
        # Its iterators are generators, which end what they hold when they are closed.
        with closing(cast(Any, self.scheduler.watch())) as watching:
            for states in watching:
                last.update({state.name: state for state in states})
                if all(name in last and is_so(last[name]) for name in wanted):
                    return {name: last[name] for name in wanted}
                assert time.monotonic() < deadline, f"{wanted} are not {what}: {last}"
        raise AssertionError(f"it stopped watching before {wanted} were {what}")

    def until_ended(self, *names: str) -> dict[str, JobState]:
        return self.until(names, lambda state: state.ended, "ended")

    def until_running(self, *names: str) -> dict[str, JobState]:
        return self.until(names, lambda state: state.running, "running")

    def until_started(self, *names: str) -> None:
        """Wait until processes of all these jobs wrote that they began."""
        deadline = time.monotonic() + self.wait_s
        while missing := set(names) - set(self.processes()):
            assert time.monotonic() < deadline, f"{missing} did not start"
            time.sleep(0.05)

    def started_s(self, name: str) -> float:
        """When the first process of a job began."""
        return min(process.started_s for process in self.processes()[name])


def job(name: str, program: Any = SHORT, **more: Any) -> Job:
    """One that is due at once."""
    return Job(name=name, submit_at_s=0.0, program=program, **more)


class SchedulerContract:
    """The suite; a subclass has the fixture `bench`, of the scope of its class."""

    def test_its_features_are_known_ones(self, bench: Bench) -> None:
        assert bench.scheduler.can <= FEATURES

    def test_jobs_end_as_their_processes_do_and_are_told_to_who_watches_later(self, bench: Bench) -> None:
        odd = "Mixed_case.and-a-name-that-is-longer-than-most-labels-may-be-in-many-schedulers.0001"
        well = ["plain-0", "plain-1", odd]
        began, asked = time.time(), sum(bench.scheduler.requests().values())
        bench.scheduler.submit([*map(job, well), job("fails", exit_code=3)])
        ended = bench.until_ended(*well, "fails")
        for name, state in ended.items():
            assert state.succeeded == (name in well), state
            assert not state.running
            assert all(began - 60 < told < time.time() + 60 for told in state.told.values()), state
            # One that fails is not tried again.
            (process,) = bench.processes()[name]
            assert (process.rank, process.attempt) == (0, 1)
            assert process.exit_code == (0 if name in well else 3)
            assert process.ended_s is not None
            assert process.ended_s - process.started_s >= SHORT.seconds
        # Who begins to watch is told all that there is.
        with closing(cast(Any, bench.scheduler.watch())) as watching:
            first = {state.name: state for state in next(watching)}
        assert {name: first[name].ended for name in ended} == dict.fromkeys(ended, True)
        # Requests are counted, where they are counted at all.
        asked_since = sum(bench.scheduler.requests().values())
        assert asked_since > asked or asked_since == asked == 0

    def test_it_yields_at_least_once_a_second(self, bench: Bench) -> None:
        with closing(cast(Any, bench.scheduler.watch())) as watching:
            next(watching)
            began = time.monotonic()
            for _ in range(3):
                next(watching)
            # On a machine that has other work as well.
            assert time.monotonic() - began < 3 * 2.0

    def test_a_cancelled_job_ends_whether_it_runs_or_waits(self, bench: Bench) -> None:
        blockers = [f"cancelled-{number}" for number in range(bench.machines)]
        bench.scheduler.submit([job(name, LONG, cpus_per_task=bench.cpus) for name in blockers])
        bench.until_started(*blockers)
        bench.until_running(*blockers)
        bench.scheduler.submit([job("cancelled-waiting", LONG)])
        bench.scheduler.cancel(["cancelled-waiting", *blockers])
        self._ended_by_cancelling(bench, blockers)
        # All is free again.
        bench.scheduler.submit([job("after-cancelled", cpus_per_task=bench.cpus)])
        assert bench.until_ended("after-cancelled")["after-cancelled"].succeeded
        assert "cancelled-waiting" not in bench.processes()

    def test_a_gang_starts_whole_or_not_at_all(self, bench: Bench) -> None:
        bench.needs("gang")
        tasks = bench.all_cpus // 2 + 1
        gangs = ["gang-1", "gang-2"]
        bench.scheduler.submit([job(name, Sleep(1.0), tasks=tasks) for name in gangs])
        assert all(state.succeeded for state in bench.until_ended(*gangs).values())
        there = bench.processes()
        for name in gangs:
            assert sorted(process.rank for process in there[name]) == list(range(tasks))
        # Two do not fit at once: each has ended before the next begins.
        in_turn = sorted((there[name] for name in gangs), key=lambda them: min(p.started_s for p in them))
        for earlier, later in pairwise(in_turn):
            ends = [process.ended_s for process in earlier]
            assert None not in ends
            assert max(end for end in ends if end is not None) <= min(process.started_s for process in later)

    def test_a_job_of_several_tasks_runs_each_of_them_once(self, bench: Bench) -> None:
        bench.scheduler.submit([job("tasks", tasks=bench.all_cpus)])
        assert bench.until_ended("tasks")["tasks"].succeeded
        ranks = sorted(process.rank for process in bench.processes()["tasks"])
        assert ranks == list(range(bench.all_cpus))
        assert len({process.machine for process in bench.processes()["tasks"]}) == bench.machines

    def test_of_those_that_wait_the_higher_priority_goes_first(self, bench: Bench) -> None:
        bench.needs("priority")
        blockers = [f"before-{number}" for number in range(bench.machines)]
        bench.scheduler.submit([job(name, Sleep(4.0), cpus_per_task=bench.cpus) for name in blockers])
        bench.until_started(*blockers)
        waiting = {f"waits-{priority}": priority for priority in (1, 3, 2)}
        bench.scheduler.submit(
            [
                job(name, Sleep(1.0), tasks=1, cpus_per_task=bench.cpus, priority=p)
                for name, p in waiting.items()
            ]
        )
        bench.until_ended(*waiting)
        order = sorted(waiting, key=bench.started_s)
        # As many start together as there are machines.
        first = {waiting[name] for name in order[: bench.machines]}
        assert first == set(sorted(waiting.values(), reverse=True)[: bench.machines])

    def test_a_job_that_preempts_pushes_one_out_which_runs_again(self, bench: Bench) -> None:
        bench.needs("preemption")
        low = [f"low-{number}" for number in range(bench.machines)]
        bench.scheduler.submit([job(name, Sleep(12.0), cpus_per_task=bench.cpus) for name in low])
        bench.until_started(*low)
        bench.scheduler.submit([job("high", cpus_per_task=bench.cpus, priority=100, preempts=True)])
        assert bench.until_ended("high")["high"].succeeded
        assert all(state.succeeded for state in bench.until_ended(*low).values())
        there = bench.processes()
        assert any(len(there[name]) > 1 for name in low), there
        # It did not wait until one of them came to its end.
        ends = [process.ended_s for name in low for process in there[name] if process.ended_s is not None]
        assert bench.started_s("high") < min(ends)

    def test_a_job_waits_for_those_that_it_is_after(self, bench: Bench) -> None:
        bench.needs("dependencies")
        bench.scheduler.submit([job("first", Sleep(1.0)), job("second", after=("first",))])
        bench.until_ended("first", "second")
        (first,) = bench.processes()["first"]
        assert first.ended_s is not None
        assert first.ended_s <= bench.started_s("second")

    def test_jobs_of_an_array_are_jobs_each(self, bench: Bench) -> None:
        bench.needs("array")
        names = [f"array-{number}" for number in range(4)]
        jobs = [job(name, array="array", exit_code=int(number == 2)) for number, name in enumerate(names)]
        bench.scheduler.submit(jobs)
        ended = bench.until_ended(*names)
        assert [ended[name].succeeded for name in names] == [True, True, False, True]

    def test_its_parts_run_on_this_host(self, bench: Bench) -> None:
        parts = bench.scheduler.parts()
        running = {
            part: [pid for pid in pids if Path(f"/proc/{pid}").exists()] for part, pids in parts.items()
        }
        assert any(running.values()), parts

    def test_its_settings_are_told(self, bench: Bench) -> None:
        settings = bench.scheduler.settings()
        assert settings
        assert all(isinstance(value, str) for value in settings.values())

    def _ended_by_cancelling(self, bench: Bench, names: Sequence[str]) -> None:
        """No process of these came to its end, and a second look finds none of them running."""
        with closing(cast(Any, bench.scheduler.watch())) as watching:
            deadline = time.monotonic() + bench.wait_s
            states = {state.name: state for state in next(watching)}
            while any(states[name].running for name in names if name in states):
                states.update({state.name: state for state in next(watching)})
                assert time.monotonic() < deadline, states
        assert all(process.ended_s is None for name in names for process in bench.processes()[name])


class ProgramsContract(SchedulerContract):
    """The suite of schedulers that run programs: what these measure of machines is told by every task."""

    def test_kernels_of_a_machine_run_in_every_task_and_are_measured(self, bench: Bench) -> None:
        measured = {
            RunKernel("matrix", (256, 2)): ["matrix_flops_per_second"],
            RunKernel("stream", (200_000, 3)): [
                f"{name}_bytes_per_second" for name in ("copy", "scale", "add", "triad")
            ],
        }
        jobs = [
            job(f"kernel-{program.kernel}", program, tasks=bench.machines, cpus_per_task=bench.cpus)
            for program in measured
        ]
        bench.scheduler.submit(jobs)
        ended = bench.until_ended(*(each.name for each in jobs))
        there = bench.processes()
        for each, figures in zip(jobs, measured.values(), strict=True):
            assert ended[each.name].succeeded, ended[each.name]
            assert sorted(process.rank for process in there[each.name]) == list(range(bench.machines))
            for process in there[each.name]:
                assert list(process.figures) == figures
                assert all(1e6 < value < 1e13 for value in process.figures.values()), process
        # Where tasks are placed one by one, those of a job may have been on one machine in turns.
        assert len({process.machine for each in jobs for process in there[each.name]}) == bench.machines
