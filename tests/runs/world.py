"""All that is around a run, in memory: a cluster, Slurm, files, results, a clock; and kills and faults at any call."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.runs.workloads import workload as read
from tidepool.cluster.frozen import FrozenDict
from tidepool.runs.drive import RENEWED_AFTER_S, drive
from tidepool.runs.journal import Journal
from tidepool.runs.ports import (
    ClusterSight,
    ClusterUse,
    Listed,
    Parties,
    Records,
    Refused,
    RunError,
    TakenOver,
)
from tidepool.runs.record import Cost, JobStanding, Order, Output, Run, RunJob, from_json, to_json
from tidepool.runs.workload import Workload

AT = datetime(2026, 11, 27, 20, tzinfo=UTC)
USD_PER_HOUR = 3.6
BOOT_S = 30.0


class Killed(BaseException):
    """The process that drives is gone."""


@dataclass
class FakeJob:
    """A job in Slurm."""

    name: str
    after: tuple[tuple[int, str], ...]
    length_s: float
    fails: bool
    standing: JobStanding = "held"
    released: datetime | None = None
    began: datetime | None = None
    ended: datetime | None = None


@dataclass
class World:
    """One run's surroundings. It is its clock, and all of its ports; ``calls`` names each call, in order."""

    workload: Workload
    folder: Path
    lengths: Mapping[str, float] = field(default_factory=dict)
    failing_jobs: frozenset[str] = frozenset()
    #: By job, the paths that it writes, and what; by default one of its name.
    writes: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    deadline_s: int | None = None
    budget_usd: float | None = None
    keep_on_failure_s: int = 0
    now: datetime = AT
    cluster: ClusterSight = "absent"
    #: Since when it costs, and what it had cost before.
    up_since: datetime | None = None
    spent_usd: float = 0.0
    home: dict[str, bytes] = field(default_factory=dict)
    slurm: dict[int, FakeJob] = field(default_factory=dict)
    results: dict[str, bytes] = field(default_factory=dict)
    result_writes: Counter[str] = field(default_factory=Counter)
    parts: set[str] = field(default_factory=set)
    #: Results that are not what was written when they are looked at first.
    spoiled: set[str] = field(default_factory=set)
    was_spoiled: set[str] = field(default_factory=set)
    copy: str = ""
    claims: dict[int, tuple[str, datetime]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    #: Calls that fail now, and those that are refused.
    faults: set[str] = field(default_factory=set)
    refusals: set[str] = field(default_factory=set)
    #: Asked at each call, before its effect and after it; may raise `Killed`, and change the world.
    happens: Callable[[str, bool], None] = lambda call, after: None
    dead: set[tuple[str, int]] = field(default_factory=set)
    ran: Counter[str] = field(default_factory=Counter)
    machines: int = 0
    #: On which the driver is.
    machine: int = 0
    told: list[Run] = field(default_factory=list)
    #: In place of those in memory.
    records: Records | None = None
    #: How long the cluster takes to come up.
    boot_s: float = BOOT_S
    _beat: Callable[[], None] | None = None
    _beaten: datetime = AT

    @classmethod
    def of(
        cls, folder: Path, *jobs: dict[str, Any], outputs: Sequence[str] = ("out/*",), **more: Any
    ) -> World:
        return cls(read(*jobs, outputs=list(outputs)), folder, **more)

    def journal(self, machine: int = 0) -> Journal:
        """That of one of several machines."""
        return Journal(
            self.folder / f"machine-{machine}" / "runs.db",
            now=lambda: self.now,
            # Of a process of another machine nothing is known.
            dead=lambda driver: (driver, machine) in self.dead,
            power_safe=False,
        )

    @property
    def order(self) -> Order:
        return Order(
            "physics-run", "physics-run-1", AT, "ada", "s3://results", FrozenDict(), FrozenDict(),
            self.deadline_s, self.budget_usd, 60, self.keep_on_failure_s,
        )  # fmt: skip

    # Driving

    def begin(self) -> Run:
        journal = self.journal()
        try:
            return journal.order("physics-run-1", self.order)
        finally:
            journal.close()

    def drive(self, machine: int = 0) -> Run | None:
        """Go on with the run on a machine; None where the driver was killed on the way, or another machine has it."""
        self.machine = machine
        journal = self.journal(machine)
        try:
            # As whoever resumes a run does, on whichever machine.
            run = journal.adopt(from_json(self.copy)) if self.copy else journal.run("physics-run-1")
            return self.go_on(run, journal)
        except TakenOver:
            self._wait(60.0)
            return None
        except Killed:
            self.dead.add((self.told[-1].driver, machine))
            return None
        finally:
            journal.close()

    def go_on(self, run: Run, journal: Journal) -> Run:
        """Drive a run of a journal."""
        return drive(
            run,
            self.workload,
            Parties(self, _Jobs(self), _Files(self), self.records or _Records(self)),
            journal,
            now=lambda: self.now,
            wait=self._wait,
            told=self.told.append,
            beside=self._beside,
        )

    @contextmanager
    def _beside(self, call: Callable[[], None]) -> Iterator[None]:
        self._beat, self._beaten = call, self.now
        try:
            yield
        finally:
            self._beat = None

    def to_the_end(self, *machines: int) -> Run:
        """Go on until it has ended, after each kill on the next of ``machines``, and then on the last of them."""
        self.begin()
        where = list(machines or (0,))
        for _ in range(200):
            run = self.drive(where[0] if len(where) == 1 else where.pop(0))
            if run is not None:
                return run
        raise AssertionError("it does not come to an end")

    def _wait(self, seconds: float) -> None:
        """Have time go on, with what is done each minute beside."""
        ends = self.now + timedelta(seconds=seconds)
        while self.now < ends:
            self.now = min(ends, self.now + timedelta(seconds=RENEWED_AFTER_S))
            if self._beat is not None and self.now - self._beaten >= timedelta(seconds=RENEWED_AFTER_S):
                self._beaten = self.now
                self._beat()

    # The cluster

    @contextmanager
    def call(self, name: str, seconds: float = 0.1) -> Iterator[None]:
        """One call of a port, which takes so long."""
        self.calls.append(name)
        self.happens(name, False)
        self._wait(seconds)
        if name in self.refusals:
            raise Refused(f"{name} is refused")
        if name in self.faults:
            raise RunError(f"{name} does not answer")
        yield
        self.happens(name, True)

    def see(self) -> ClusterSight:
        with self.call("cluster.see"):
            if self.cluster == "partial":
                # Where an operation was cut off, its controller may be gone and be in the stack's outputs still.
                raise RunError("its controller does not answer")
            return self.cluster
        raise AssertionError

    def up(self) -> None:
        with self.call("cluster.up", self.boot_s):
            if self.cluster != "up":
                self.machines += self.cluster == "absent"
                self.cluster = "partial"
                self.up_since = self.up_since or self.now
                self.happens("cluster.up", True)
                self.cluster = "up"

    def down(self, *, with_home: bool) -> None:
        with self.call("cluster.down", 2.0):
            self.spent_usd = self._usd()
            self.up_since = None
            self.cluster = "partial" if self.cluster != "absent" else "absent"
            self.happens("cluster.down", True)
            self.slurm.clear()
            if with_home:
                self.home.clear()
            self.cluster = "absent"

    def remove_file(self) -> None:
        with self.call("cluster.remove_file"):
            assert self.cluster == "absent"

    def use(self) -> ClusterUse:
        with self.call("cluster.use"):
            return ClusterUse(FrozenDict({"debian-12": "sha256:1"}), ("cpu-1",), Cost(self._usd()))
        raise AssertionError

    def _usd(self) -> float:
        since = self.up_since
        return self.spent_usd + (
            0 if since is None else (self.now - since).total_seconds() / 3600 * USD_PER_HOUR
        )

    def lose(self) -> None:
        """The cluster's machines are gone, and nobody of the run did it."""
        self.cluster, self.up_since = "absent", None
        self.slurm.clear()

    def advance(self) -> None:
        """Have jobs begin and end as it is time for that."""
        for _ in range(len(self.slurm) + 1):
            for job in self.slurm.values():
                self._advance(job)

    def _advance(self, job: FakeJob) -> None:
        if job.standing == "waiting":
            before = [(self.slurm[id], ends) for id, ends in job.after]
            if any(each.ended is None for each, _ in before):
                return
            if any(
                (each.standing == "succeeded") is not (ends == "ok") for each, ends in before if ends != "any"
            ):
                job.standing = "never"
                return
            job.began = max([job.released or self.now, *(each.ended or self.now for each, _ in before)])
            job.standing = "running"
            self.ran[job.name] += 1
        if job.standing == "running" and job.began is not None:
            ends = job.began + timedelta(seconds=job.length_s)
            if self.now >= ends:
                job.ended, job.standing = ends, "failed" if job.fails else "succeeded"
                self._write(job)

    def _write(self, job: FakeJob) -> None:
        if not job.fails:
            self.home.update(self.writes.get(job.name, {f"out/{job.name}": job.name.encode() * 10}))


@dataclass
class _Jobs:
    world: World

    def see(self) -> tuple[RunJob, ...]:
        with self.world.call("jobs.see"):
            self.world.advance()
            return tuple(RunJob(job.name, id, job.standing) for id, job in self.world.slurm.items())
        raise AssertionError

    def submit(self, name: str, ids: Mapping[str, int]) -> int:
        world = self.world
        with world.call("jobs.submit"):
            job = world.workload.job(name)
            after = tuple((ids[each.job], each.ends) for each in job.after)
            id = len(world.slurm) + 1
            world.slurm[id] = FakeJob(name, after, world.lengths.get(name, 60.0), name in world.failing_jobs)
        return id

    def release(self, ids: Collection[int]) -> None:
        with self.world.call("jobs.release"):
            for id in ids:
                job = self.world.slurm[id]
                if job.standing == "held":
                    job.standing, job.released = "waiting", self.world.now

    def stop(self, ids: Collection[int]) -> None:
        with self.world.call("jobs.stop"):
            self.world.advance()
            for id in ids:
                job = self.world.slurm[id]
                if job.ended is None:
                    if job.standing == "running":
                        self.world._write(job)  # it heard the signal, and wrote what it had
                    job.standing, job.ended = "cancelled", self.world.now


@dataclass
class _Files:
    world: World

    def stage(self) -> None:
        with self.world.call("files.stage", 1.0):
            return

    def list(self) -> Listed:
        world = self.world
        with world.call("files.list"):
            globs = world.workload.outputs
            found = {
                path: data for path, data in world.home.items() if any(Path(path).match(g) for g in globs)
            }
            unmatched = tuple(g for g in globs if not any(Path(path).match(g) for path in world.home))
            return Listed(tuple(_output(path, data) for path, data in sorted(found.items())), unmatched)
        raise AssertionError

    def upload(self, outputs: Sequence[Output], kept: Callable[[Output], None]) -> None:
        world = self.world
        for output in outputs:
            with world.call("files.upload", 1.0):
                world.parts.add(output.path)
                world.happens("files.upload", True)
                if world.results.get(output.path) != world.home[output.path]:
                    world.results[output.path] = world.home[output.path]
                    world.result_writes[output.path] += 1
                world.parts.discard(output.path)
            kept(output)

    def verify(self, outputs: Sequence[Output]) -> tuple[Output, ...]:
        world = self.world
        with world.call("files.verify"):
            paths = world.spoiled - world.was_spoiled
            world.was_spoiled |= paths
            for path in paths:
                world.results.pop(path, None)
            return tuple(each for each in outputs if each.path not in world.results)
        raise AssertionError

    def abandon(self) -> None:
        with self.world.call("files.abandon"):
            self.world.parts.clear()


@dataclass
class _Records:
    world: World

    def claim(self, run: Run, now: datetime) -> int:
        world = self.world
        with world.call("records.claim"):
            last = max(world.claims, default=0)
            driver, until = world.claims.get(last, ("", AT))
            if driver == run.driver:
                return last
            if driver and until > now and (driver, world.machine) not in world.dead:
                raise TakenOver("another has it")
            assert run.driver_until is not None
            world.claims[last + 1] = run.driver, run.driver_until
            return last + 1
        raise AssertionError

    def renew(self, run: Run, until: datetime) -> None:
        if "records.publish" in self.world.faults:
            raise RunError("records.renew does not answer")
        if max(self.world.claims, default=0) > run.epoch:
            raise TakenOver("a later one has it")
        self.world.claims[run.epoch] = run.driver, until

    def publish(self, run: Run) -> None:
        with self.world.call("records.publish"):
            if max(self.world.claims, default=0) > run.epoch:
                raise TakenOver("a later one has it")
            self.world.copy = to_json(run)


def _output(path: str, data: bytes) -> Output:
    return Output(path, len(data), hashlib.sha256(data).hexdigest())


def check(world: World, run: Run) -> None:
    """What must hold of every run that has ended, whatever happened."""
    assert run.phase == "done"
    assert run.ended is not None
    assert world.cluster == "absent"
    assert not world.parts
    assert run.outcome
    assert bool(run.because) is (run.outcome != "succeeded")
    assert all(count == 1 for count in world.ran.values()), world.ran
    for path, count in world.result_writes.items():
        assert count == 1 or path in world.spoiled, (path, count)
    for output in run.outputs:
        if output.is_verified:
            assert hashlib.sha256(world.results[output.path]).hexdigest() == output.sha256
    if run.outcome == "succeeded":
        assert {job.standing for job in run.jobs} == {"succeeded"}
        assert len(run.jobs) == len(world.workload.jobs)
        assert all(output.is_verified for output in run.outputs)
        assert not world.home
    if world.home:
        # What is nowhere else is still there, and the record says that it is not in the results.
        assert run.outcome != "succeeded"
        assert not run.is_home_done
    if world.copy:
        copy = from_json(world.copy)
        ours = replace(run, driver="", driver_until=None, text="")
        # Where results could not be written to the last, whoever sweeps ends it once more, and there is nothing to do.
        assert replace(copy, driver="", driver_until=None, text="") == ours or copy.is_under_way
    assert from_json(to_json(run)) == run
