"""The record of a run: what was asked, how far it is, how it ended and why, its jobs, its results, what it cost. Frozen.

```
 checked -> up -> staging -> submitting -> running -> collecting -> verifying -> down -> done
    |        |       |            |           |            ^  |          |        ^
    |        |       |            +-----------+-> stopping +  +----------+-> kept |   kept for whoever looks what failed
    |        +-------+------------------------------------------------------------+   nothing to collect yet
    +-> done: nothing was made
```
A deadline, a budget, a cancel and a failure go by these edges; `outcome` says which it was. `down` is the point of no return.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from tidepool.cluster.frozen import FrozenDict, frozen

_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()

Phase = Literal[
    "checked", "up", "staging", "submitting", "running", "stopping", "collecting", "verifying", "kept", "down", "done"
]  # fmt: skip
#: How a run ended, or is about to; empty while it is as it should be.
Outcome = Literal["", "succeeded", "failed", "deadline", "budget", "cancelled"]
#: Until the end of these it can be cancelled, and its deadline and its budget count.
CANCELLABLE: Final[frozenset[Phase]] = frozenset({"checked", "up", "staging", "submitting", "running"})
#: In these there is a cluster, or may be.
HAS_CLUSTER: Final[frozenset[Phase]] = frozenset(
    {"up", "staging", "submitting", "running", "stopping", "collecting", "verifying", "kept", "down"}
)


@dataclass(frozen=True, slots=True)
class Order:
    """Order of a run: of which workload, on which cluster, by whom, with results at which URL.

    ``workload`` and ``spec`` are documents, as they were read, with scripts in them. ``stack`` is the cluster's. Seconds count
    from ``at``; None is without end. ``keep_on_failure_s`` is how long the cluster stays where the run did not succeed.
    """

    name: str
    stack: str
    at: datetime
    by: str
    results: str
    workload: Mapping[str, Any]
    spec: Mapping[str, Any]
    deadline_s: int | None = None
    budget_usd: float | None = None
    grace_s: int = 60
    keep_on_failure_s: int = 0


#: How Slurm has a job, or all tasks of an array together. ``held``: it waits for its release. ``never``: what it depends on
#: did not end as it asks for. ``lost``: Slurm does not know it any more.
JobStanding = Literal["held", "waiting", "running", "succeeded", "failed", "cancelled", "never", "lost"]
JOB_ENDED: Final[frozenset[JobStanding]] = frozenset({"succeeded", "failed", "cancelled", "lost"})


@dataclass(frozen=True, slots=True)
class RunJob:
    """A job of the workload in Slurm. ``text`` says what it waits for or how it ended: ``exit code 3``."""

    name: str
    job_id: int
    standing: JobStanding = "held"
    text: str = ""
    #: Slurm's accounting of it when it has ended, by sacct's names: Start, End, NodeList, ElapsedRaw, CPUTimeRAW.
    accounting: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class Output:
    """A file of the results: its path below the run's folder, and in the results below ``outputs/``.

    ``is_kept``: all of it is there. ``is_verified``: it was asked for there, and is this one.
    """

    path: str
    size: int
    sha256: str
    is_kept: bool = False
    is_verified: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of the cluster: its machines by fleet in node hours, the own ones as ``""``; in US dollars by the spec's prices."""

    usd: float = 0.0
    node_hours: Mapping[str, float] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class Run:
    """One run. ``id`` is unique wherever results are kept: ``physics-run-20261127-204512-4c1f``."""

    id: str
    order: Order
    phase: Phase = "checked"
    #: When each phase began; within phases, when steps were done (``running/released``); since when somebody drives it
    #: without a break (``driver/since``), and when the cluster answered last (``cluster/answered``).
    began: Mapping[str, datetime] = field(default_factory=lambda: _NOTHING)
    ended: datetime | None = None
    outcome: Outcome = ""
    #: The phase in which it turned out so, and why, in words.
    turned_in: Phase | None = None
    because: str = ""
    #: Who asked to cancel it, or to let a kept cluster go.
    cancel_by: str = ""
    #: What holds it up, in words.
    text: str = ""
    #: By image, its digest; the names of all nodes that there were.
    images: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    nodes: tuple[str, ...] = ()
    cost: Cost = Cost()
    jobs: tuple[RunJob, ...] = ()
    outputs: tuple[Output, ...] = ()
    #: Globs of outputs that nothing matches.
    unmatched: tuple[str, ...] = ()
    #: Which process drives it, and until when it is taken to be alive; and how often the driver has changed, by `claim`.
    driver: str = ""
    driver_until: datetime | None = None
    epoch: int = 0

    @property
    def is_under_way(self) -> bool:
        return self.phase != "done"

    @property
    def job_ids(self) -> Mapping[str, int]:
        """By name of those that were submitted."""
        return {job.name: job.job_id for job in self.jobs}

    @property
    def missing(self) -> tuple[Output, ...]:
        """The results that are not where they are kept, as far as is known."""
        return tuple(output for output in self.outputs if not output.is_kept)

    @property
    def is_home_done(self) -> bool:
        """Return whether nothing is on /home any more that is not in the results: no job began, or all outputs were verified."""
        began = self.began
        return "running" not in began or (
            "collecting/listed" in began and all(each.is_verified for each in self.outputs)
        )

    @property
    def ends_at(self) -> datetime | None:
        """When its deadline passes; None where it has none."""
        order = self.order
        return None if order.deadline_s is None else order.at + timedelta(seconds=order.deadline_s)


def with_jobs(run: Run, seen: Iterable[RunJob]) -> Run:
    """Return the run with its jobs as they were seen; one that ended and is not seen any more stays as it was.

    A job that is seen and was not written down was submitted by one who was killed.
    """
    jobs = {job.name: job for job in run.jobs}
    there = {job.name: job for job in seen}
    for name, job in there.items():
        if name not in jobs or jobs[name].standing not in JOB_ENDED:
            jobs[name] = job
    if "running" in run.began:
        # All had been there: Slurm has lost its state, or forgotten what ended.
        for name in jobs.keys() - there.keys():
            if jobs[name].standing not in JOB_ENDED:
                jobs[name] = replace(jobs[name], standing="lost", text="Slurm does not know it any more")
    return replace(run, jobs=tuple(jobs.values()))


def with_outputs(run: Run, changed: Iterable[Output]) -> Run:
    """Return the run with these in place of those of their paths."""
    outputs = {output.path: output for output in run.outputs}
    outputs.update({output.path: output for output in changed})
    return replace(run, outputs=tuple(outputs[path] for path in sorted(outputs)))


#: The version of the document, which is in it.
FORMAT: Final = 1


def to_json(run: Run) -> str:
    """Write it as a document, whose keys are the fields' names."""
    document = asdict(run)
    return json.dumps({"format": FORMAT, **document}, default=_plain, indent=1, sort_keys=True) + "\n"


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    raise TypeError(f"{value!r} is nothing for a record")


def from_json(text: str) -> Run:
    """Read what `to_json` wrote.

    Raises:
        ValueError: it is none, or of a newer release.
    """
    try:
        found = json.loads(text)
        if found.pop("format") != FORMAT:
            raise ValueError("it is of another release")
        order = found.pop("order")
        return Run(
            **{
                **found,
                "order": Order(
                    **{
                        **order,
                        "at": datetime.fromisoformat(order["at"]),
                        "workload": frozen(order["workload"]),
                        "spec": frozen(order["spec"]),
                    }
                ),
                "began": FrozenDict(
                    {name: datetime.fromisoformat(at) for name, at in found["began"].items()}
                ),
                "ended": _moment(found["ended"]),
                "images": FrozenDict(found["images"]),
                "nodes": tuple(found["nodes"]),
                "cost": Cost(found["cost"]["usd"], FrozenDict(found["cost"]["node_hours"])),
                "jobs": tuple(
                    RunJob(**{**job, "accounting": FrozenDict(job["accounting"])}) for job in found["jobs"]
                ),
                "unmatched": tuple(found["unmatched"]),
                "outputs": tuple(Output(**output) for output in found["outputs"]),
                "driver_until": _moment(found["driver_until"]),
            }
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"it is no record of a run: {error}") from error


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


#: After how many seconds without a step forward a phase is given up. `running` ends by its jobs, its deadline, its budget.
DEADLINES: Final[Mapping[Phase, float]] = FrozenDict(
    {
        "checked": 60.0,
        "up": 1800.0,
        "staging": 1800.0,
        "submitting": 600.0,
        "stopping": 120.0,
        "collecting": 1800.0,
        "verifying": 600.0,
    }
)
#: A cluster that has not answered for so long while jobs run, in seconds, is given up.
SILENT_S: Final = 1800.0
#: For so long, in seconds, results are asked to take parts of outputs away; the cluster is gone already.
ABANDON_S: Final = 600.0


def deadline(run: Run) -> datetime | None:
    """When the present phase is given up. None: it is not, or nobody has begun to drive it."""
    since = counted_from(run)
    if since is None:
        return None
    if run.phase == "running":
        return since + timedelta(seconds=SILENT_S)
    if run.phase == "down" and "down/gone" in run.began:
        return run.began["down/gone"] + timedelta(seconds=ABANDON_S)
    if run.phase not in DEADLINES:
        return None
    grace_s = run.order.grace_s if run.phase == "stopping" else 0
    return since + timedelta(seconds=DEADLINES[run.phase] + grace_s)


def counted_from(run: Run) -> datetime | None:
    """Since when the present phase's time runs: since it began, went forward, or somebody goes on who was not there before."""
    driven = run.began.get("driver/since")
    if driven is None:
        return None
    marks = [at for name, at in run.began.items() if name == run.phase or name.startswith(f"{run.phase}/")]
    if run.phase == "running" and "cluster/answered" in run.began:
        marks.append(run.began["cluster/answered"])
    return max([*marks, driven])


def kept_until(run: Run) -> datetime | None:
    """Until when the cluster stays for whoever looks what failed; None where it does not."""
    if "kept" not in run.began:
        return None
    return run.began["kept"] + timedelta(seconds=run.order.keep_on_failure_s)
