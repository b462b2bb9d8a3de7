"""tidepool:runs:Run: a workload on a cluster of its own, by the command `tidepool run`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from tidepool.cluster.failures import Note
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.resources.kind import Kind, Made, Refusal, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.runs import Run, RunModel
from tidepool.resources.values import whole_numbers
from tidepool.runs.command import Event, run
from tidepool.runs.feasibility import obstacles
from tidepool.runs.ports import NotOrdered, RunError
from tidepool.runs.results import open_store
from tidepool.runs.urls import plain_url
from tidepool.runs.workload_reading import WorkloadError, read_workload


class RunKind(Kind[RunModel]):
    """A run. What can be known to be wrong is told in previews, as `tidepool run` tells it."""

    resource = Run
    #: The workload's own deadline ends it.
    timeout_s = 30 * 86_400.0

    def mistakes(self, wanted: RunModel) -> Iterable[Mistake | Note]:
        try:
            spec = read_spec(whole_numbers(wanted.spec))
        except SpecError as error:
            yield Mistake("spec", str(error))
            return
        try:
            workload = read_workload(whole_numbers(wanted.workload), _no_file)
            if found := obstacles(workload, spec, datetime.now(UTC)):
                raise WorkloadError(found)
        except WorkloadError as error:
            yield Mistake("workload", str(error))
        try:
            plain_url(wanted.results)
        except ValueError as error:
            yield Mistake("results", str(error))

    def create(self, wanted: RunModel, task: Task) -> Made:
        environment = {**self._home.environment, "TIDEPOOL_DATA": str(self._home.data)}

        def report(event: Event) -> None:
            if event["event"] in ("phase", "text"):
                task.status(f"{event['run']}: {event.get('phase') or event.get('text')}")

        try:
            done = run(
                read_spec(whole_numbers(wanted.spec)),
                read_workload(whole_numbers(wanted.workload), _no_file),
                results=wanted.results,
                keep_on_failure=wanted.keep_on_failure,
                told=report,
                cancelled=task.cancelled,
                env=environment,
            )
            with closing(open_store(wanted.results, environment)) as store:
                location = store.location(done.id)
        except (NotOrdered, RunError) as error:
            raise Refusal(str(error)) from error
        if done.outcome != "succeeded":
            raise Refusal(f"run {done.id} {done.outcome}: {done.because}; its record: {location}")
        outputs = {each.path: each.sha256 for each in done.outputs}
        return Made(done.id, {"location": location, "outputs": outputs, "costUsd": done.cost.usd})

    def update(self, id: str, old: RunModel, wanted: RunModel, task: Task) -> Mapping[str, Any]:
        """Change nothing that is there: how long a cluster stays that failed is of the next run."""
        return {"location": old.location, "outputs": dict(old.outputs), "costUsd": old.cost_usd}


def _no_file(name: str) -> str:
    raise ValueError(
        f"there is no {name} here; `EphemeralCluster` reads scripts from files where the program runs"
    )
