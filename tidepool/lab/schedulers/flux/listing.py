"""Jobs as Flux tells of them: the lines of `flux job list`, a JSON object each. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.schedulers.contract import JobState

#: As flux/core/job.h numbers them.
_STATES: Final = {1: "NEW", 2: "DEPEND", 4: "PRIORITY", 8: "SCHED", 16: "RUN", 32: "CLEANUP", 64: "INACTIVE"}
_RESULTS: Final = {1: "COMPLETED", 2: "FAILED", 4: "CANCELED", 8: "TIMEOUT"}
_RUNNING: Final = ("RUN", "CLEANUP")
_INACTIVE: Final = "INACTIVE"


def read_listing(text: str) -> tuple[JobState, ...]:
    """Return the jobs of a listing, in its order. Their times are Flux's own, seconds since the epoch: ``t_submit``, ``t_run``, ...

    Raises:
        SchedulerFailed: a line is not understood.
    """
    return tuple(_read(line) for line in text.splitlines() if line.strip())


def _read(line: str) -> JobState:
    try:
        said = json.loads(line)
        state = _STATES[said["state"]]
        ended = state == _INACTIVE
        result = _RESULTS[said["result"]] if ended else ""
        return JobState(
            name=said["name"],
            state=result or state,
            running=state in _RUNNING,
            ended=ended,
            succeeded=result == "COMPLETED",
            told=_times(said),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SchedulerFailed(
            f"Flux's list of jobs has a line that is not understood ({error!r}): {line[:200]!r}; is it of another release than 0.88?"
        ) from error


def _times(said: Mapping[str, Any]) -> Mapping[str, float]:
    return MappingProxyType({key: float(said[key]) for key in sorted(said) if key.startswith("t_")})
