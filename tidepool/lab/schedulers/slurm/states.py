"""Records of squeue as states of a workload's jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tidepool.clients.slurm import Job as QueueRecord
from tidepool.clients.slurm import JobState as SlurmState
from tidepool.clients.slurm.quantities import array_indices
from tidepool.lab.schedulers.contract import JobState

#: States in which a job's processes may be there.
_RUNNING: Final = frozenset(
    {
        SlurmState.RUNNING,
        SlurmState.COMPLETING,
        SlurmState.RESIZING,
        SlurmState.SIGNALING,
        SlurmState.STAGE_OUT,
        SlurmState.STOPPED,
        SlurmState.SUSPENDED,
    }
)


def job_states(records: Iterable[QueueRecord], names: Mapping[str, str]) -> Iterator[JobState]:
    """Yield the states of jobs whose Slurm number (``17``, ``17_3`` in an array) is in ``names``, by their names there."""
    for record in records:
        for number in _numbers(record):
            if number in names:
                yield _state(record, names[number])


def _numbers(record: QueueRecord) -> Iterator[str]:
    if not record.array_tasks:
        yield str(record.job_id)
    else:
        yield from (f"{record.array_job_id}_{index}" for index in array_indices(record.array_tasks))


def _state(record: QueueRecord, name: str) -> JobState:
    ended = record.state.has_ended
    running = record.state in _RUNNING
    told = {"SubmitTime": record.submit_time, "EligibleTime": record.begin_time}
    # Of a job that waits it is a forecast, and so is the end of one that runs.
    if running or ended:
        told["StartTime"] = record.start_time
    if ended:
        told["EndTime"] = record.end_time
    return JobState(
        name=name,
        state=record.state.value,
        running=running,
        ended=ended,
        succeeded=record.state is SlurmState.COMPLETED,
        told=MappingProxyType({key: at.timestamp() for key, at in told.items() if at is not None}),
    )
