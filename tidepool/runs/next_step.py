"""The next step of a run: pure, from its record, what its cluster and its jobs show, and the time.

What was done before is not believed, it is looked at; every step may be made twice. The marks in ``began`` only say that
something was done to its end, where a look cannot tell: without its mark it is done again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from tidepool.cluster.frozen import FrozenDict
from tidepool.runs.ports import ClusterSight
from tidepool.runs.record import (
    CANCELLABLE,
    JOB_ENDED,
    Outcome,
    Phase,
    Run,
    RunJob,
    counted_from,
    deadline,
    kept_until,
)
from tidepool.runs.workload import Workload

_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()
_MOST_NAMED: Final = 3
#: In these the step is one that mends what cannot be asked: a cluster that was cut off as it came up, or went.
_WITHOUT_A_LOOK: Final[frozenset[Phase]] = frozenset({"up", "down"})

Verb = Literal[
    "claim", "up", "stage", "submit", "release", "stop", "list", "upload", "verify", "abandon", "down"
]


@dataclass(frozen=True, slots=True)
class Looks:
    """Looks at what the next step needs. What is not asked for may be missing in `Observed`."""

    cluster: bool = False
    jobs: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of just now, as far as `looks` asked for them."""

    cluster: ClusterSight | None = None
    jobs: Mapping[str, RunJob] = field(default_factory=lambda: _NOTHING)
    #: What could not be asked, and what was said: then nothing of it is known.
    unknown: str = ""
    #: What could not be done the last time; and what will not be, ever.
    failing: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """Do it; then look again: at once, or, where it ``waits``, in a while. With a ``mark``, ``<phase>/<mark>`` is written."""

    verb: Verb
    jobs: tuple[str, ...] = ()
    mark: str = ""
    waits: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Enter:
    """Begin the next phase. With an ``outcome``, the run has turned out so in the phase before, if it had not yet.

    With a ``mark``, ``<next phase>/<mark>`` is written with it.
    """

    phase: Phase
    outcome: Outcome = ""
    because: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Write ``<phase>/<mark>``: it was seen to be done."""

    mark: str


@dataclass(frozen=True, slots=True)
class Wait:
    """There is nothing to do but to look again."""

    text: str


Step = Act | Enter | Mark | Wait


def looks(run: Run) -> Looks:
    """Return the observations that `next_step` needs in this phase."""
    match run.phase:
        case "up" | "staging" | "collecting":
            return Looks(cluster=True)
        case "down":
            return Looks(cluster="down/gone" not in run.began)
        case "submitting" | "running" | "stopping":
            return Looks(cluster=True, jobs=True)
        case _:
            return Looks()


def next_step(run: Run, workload: Workload, seen: Observed, now: datetime) -> Step:
    """The next step of a run that is under way. A phase that is complete is over, late or not."""
    if run.phase in CANCELLABLE and (ends := _ends(run, now)) is not None:
        return _give_up(run, *ends)
    if run.phase == "kept":
        return _kept(run, now)
    if seen.refused and run.phase != "down":
        return _give_up(run, "failed", seen.refused)
    step: Step
    if seen.unknown and run.phase not in _WITHOUT_A_LOOK:
        step = Wait(seen.unknown)
    else:
        step = _step_of_phase(run, workload, seen)
    until = deadline(run)
    if isinstance(step, Enter | Mark) or until is None or now < until:
        return step
    return _late(run, seen, step, until)


def _ends(run: Run, now: datetime) -> tuple[Outcome, str] | None:
    """Return why it ends before its jobs have: a person, its deadline, its budget; None where it goes on."""
    order = run.order
    if run.cancel_by:
        return "cancelled", f"cancelled by {run.cancel_by}"
    if run.ends_at is not None and now >= run.ends_at:
        return (
            "deadline",
            f"its deadline of {order.deadline_s} s passed; give it more (deadline), or its jobs less to do",
        )
    if order.budget_usd is not None and run.cost.usd >= order.budget_usd:
        return (
            "budget",
            f"its machines cost {run.cost.usd:.2f} USD, and may cost {order.budget_usd:g} (budget_usd)",
        )
    return None


def _give_up(run: Run, outcome: Outcome, because: str) -> Enter:
    """Go on to the end from wherever it is: jobs hear of it, what is there is kept, then the cluster goes."""
    match run.phase:
        case "checked":
            return Enter("done", outcome, because)
        case "up" | "staging":
            return Enter(_after_results(run, outcome), outcome, because)
        case "submitting" | "running":
            return Enter("stopping", outcome, because)
        case "stopping":
            return Enter("collecting", outcome, because)
        case _:
            return Enter(_after_results(run, outcome), outcome, because)


def _after_results(run: Run, outcome: Outcome) -> Phase:
    """A cluster whose run failed may be kept for whoever looks why; one that cost too much, or was cancelled, is not."""
    failed = (run.outcome or outcome) in ("failed", "deadline")
    return "kept" if failed and run.order.keep_on_failure_s and "kept" not in run.began else "down"


def _step_of_phase(run: Run, workload: Workload, seen: Observed) -> Step:
    match run.phase:
        case "checked":
            return _checked(run)
        case "up":
            return _up(run, seen)
        case "staging":
            return _staging(run, seen)
        case "submitting":
            return _submitting(workload, seen)
        case "running":
            return _running(run, seen)
        case "stopping":
            return _stopping(seen)
        case "collecting":
            return _collecting(run, seen)
        case "verifying":
            return _verifying(run)
        case _:
            return _down(run, seen)


def _checked(run: Run) -> Step:
    # From here on whoever reads the results can end it: nothing is made before.
    return Enter("up") if "checked/claimed" in run.began else Act("claim", mark="claimed")


def _up(run: Run, seen: Observed) -> Step:
    if seen.cluster == "up" and "up/made" in run.began:
        return Enter("staging")
    again = bool(seen.unknown) and "up/made" in run.began
    return Act("up", mark="made", waits=again, text=seen.unknown)


def _staging(run: Run, seen: Observed) -> Step:
    if seen.cluster == "absent":
        return _gone()
    return Enter("submitting") if "staging/staged" in run.began else Act("stage", mark="staged")


def _submitting(workload: Workload, seen: Observed) -> Step:
    if seen.cluster == "absent":
        return _gone()
    for job in workload.in_order:
        # None runs before all are written down; so one that Slurm has forgotten never began.
        if job.name not in seen.jobs:
            return Act("submit", (job.name,), mark="submitted")
    return Enter("running")


def _running(run: Run, seen: Observed) -> Step:
    if seen.cluster == "absent":
        return _gone()
    if "running/released" not in run.began:
        held = tuple(name for name, job in seen.jobs.items() if job.standing == "held")
        return Act("release", held) if held else Mark("released")
    jobs = {job.name: job for job in run.jobs}
    if never := tuple(name for name, job in jobs.items() if job.standing == "never"):
        return Act("stop", never, waits=True, text=f"{_names(never)} cannot begin any more")
    if going := [job for job in jobs.values() if job.standing not in JOB_ENDED]:
        return Wait(_waits_for(going))
    failed = [job for job in jobs.values() if job.standing != "succeeded"]
    if failed:
        return Enter("collecting", "failed", f"of {len(jobs)} jobs {len(failed)} failed: {_named(failed)}")
    return Enter("collecting")


def _stopping(seen: Observed) -> Step:
    going = [job for job in seen.jobs.values() if job.standing not in JOB_ENDED]
    if seen.cluster == "absent" or not going:
        return Enter("collecting")
    names = tuple(job.name for job in going)
    return Act("stop", names, waits=True, text=f"{_names(names)} end")


def _collecting(run: Run, seen: Observed) -> Step:
    if seen.cluster == "absent":
        return _gone()
    if "collecting/listed" not in run.began:
        return Act("list", mark="listed")
    if run.missing:
        return Act("upload")
    if run.unmatched:
        return Enter(
            "verifying",
            "failed",
            f"no file matches {', '.join(run.unmatched)} (outputs); see what the jobs wrote, or mend the globs",
        )
    return Enter("verifying")


def _verifying(run: Run) -> Step:
    if run.missing:
        if "collecting/again" not in run.began:
            return Enter("collecting", mark="again")
        return _give_up(
            run, "failed", f"the results do not hold what was written there: {_paths(run.missing)}"
        )
    if all(output.is_verified for output in run.outputs):
        outcome = run.outcome or "succeeded"
        return Enter(_after_results(run, outcome), outcome)
    return Act("verify")


def _kept(run: Run, now: datetime) -> Step:
    until = kept_until(run)
    if run.cancel_by or until is None or now >= until:
        return Enter("down")
    return Wait(
        f"it is kept until {until:%Y-%m-%d %H:%M} UTC for whoever looks what failed; `tidepool run --cancel` ends it"
    )


def _down(run: Run, seen: Observed) -> Step:
    if "down/gone" not in run.began:
        if "down/down" in run.began and seen.cluster == "absent":
            return Mark("gone")
        return Act(
            "down",
            mark="down",
            waits="down/down" in run.began,
            text=seen.unknown or "something of the cluster is left",
        )
    return Enter("done") if "down/abandoned" in run.began else Act("abandon", mark="abandoned")


def _gone() -> Enter:
    """There is nothing to collect from any more."""
    return Enter("down", "failed", "its cluster is gone, and nobody of this run took it down")


def _late(run: Run, seen: Observed, step: Step, until: datetime) -> Step:
    """The deadline's edge: which phase took too long, and over what. What goes down goes on for as long as it takes."""
    if run.phase == "down":
        return Enter("done")  # parts of outputs are left where results are kept, which the record says
    since = counted_from(run) or until
    over = seen.unknown or seen.failing or (step.text if isinstance(step, Act | Wait) else "") or run.text
    what = {
        "checked": "it was not begun",
        "up": "the cluster did not come up",
        "staging": "the inputs did not come",
        "submitting": "the jobs were not submitted",
        "running": "the cluster did not answer",
        "stopping": "the jobs did not end",
        "collecting": "the outputs were not kept",
        "verifying": "the results were not verified",
    }[run.phase]
    told = f"{what} within {(until - since).total_seconds():.0f} s"
    return _give_up(run, "failed", f"{told}: {over}" if over else told)


def _waits_for(jobs: list[RunJob]) -> str:
    running = sum(job.standing == "running" for job in jobs)
    return f"{running} jobs run, {len(jobs) - running} wait: {_named(jobs)}"


def _named(jobs: list[RunJob]) -> str:
    named = [f"{job.name}{f' ({job.text})' if job.text else ''}" for job in jobs[:_MOST_NAMED]]
    more = len(jobs) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _names(names: tuple[str, ...]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _paths(outputs: tuple[Any, ...]) -> str:
    return _names(tuple(output.path for output in outputs))
