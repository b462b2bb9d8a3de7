"""Mixed sizes by the model of Lublin and Feitelson: sizes, run times that depend on them, and arrivals with a daily cycle.

U. Lublin and D. G. Feitelson, The workload on parallel supercomputers: modeling the characteristics of rigid jobs, Journal of Parallel
and Distributed Computing 63(11), 2003. Parameters are those that the authors publish for all jobs, batch and interactive in one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import gammainc

from tidepool.cluster.part import Whole
from tidepool.lab.generators.parameters import TaskParameters, limit_s, numbered
from tidepool.lab.workload import Job

SERIAL_SHARE: Final = 0.244
POWER_OF_TWO_SHARE: Final = 0.576
#: Logarithms of sizes are uniform in two stages: from the low to the middle, with this probability, or from there to the high.
_SIZE_LOW: Final = 0.8
_SIZE_FIRST_STAGE: Final = 0.86
#: How far the middle is below the high; the second where the first would lie below the low.
_SIZE_MIDDLE_BELOW: Final = (2.5, 1.5)
RUN_TIMES: Final = ((4.2, 0.94), (312.0, 0.03))
"""Shape and scale of the two gamma distributions of logarithms of run times, in seconds."""
_FIRST_BY_SIZE: Final = (-0.0054, 0.78)
_LONGEST_LOG: Final = 12.0  # about two days
#: Gamma of the logarithms of seconds between arrivals; the shape is for rush hours, and made fit for all by the authors' ratio.
_GAPS: Final = (10.2303 * 1.0225, 0.4871)
_LONGEST_GAP_LOG: Final = 13.0
#: Gamma of arrivals over the half hours of a day, which begins with the one of that number.
_DAY: Final = (8.1737, 3.9631)
_DAY_BEGINS: Final = 11
_HALF_HOURS: Final = 48
_HALF_HOUR_S: Final = 1800.0
_SHORTEST_S: Final = 0.01


class Lublin(TaskParameters):
    """Parameters of jobs by that model."""

    number: Whole = Field(default=50, ge=1, le=100_000, description="How many jobs")
    max_tasks: Whole = Field(
        default=8,
        ge=1,
        le=100_000,
        description="Size of the system that the model is made for: tasks of the largest job",
    )
    time_scale: float = Field(
        default=0.0005,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="Seconds of the laboratory for a second of the model, of run times and arrivals",
    )
    load: float | None = Field(
        default=None,
        gt=0,
        le=10,
        allow_inf_nan=False,
        description="Offered load, as a share of max_tasks: arrivals are stretched to it. Without it the model's own",
    )
    start_hour: Whole = Field(
        default=0, ge=0, le=23, description="Hour of the day at which the first job comes"
    )

    def jobs(self, chance: Random) -> tuple[Job, ...]:
        sizes = [tasks_by_model(chance, self.max_tasks) for _ in range(self.number)]
        seconds = [max(_SHORTEST_S, round(run_time_s(chance, size) * self.time_scale, 3)) for size in sizes]
        arrivals_s = arrivals_by_model(chance, self.number, self.start_hour) * self.time_scale
        arrivals_s *= self._stretch(sizes, seconds, arrivals_s)
        return tuple(
            Job(
                name=numbered("job", place + 1, self.number),
                submit_at_s=round(float(arrivals_s[place]), 6),
                program=self.program_of(seconds[place]),
                tasks=sizes[place],
                cpus_per_task=self.cpus_per_task,
                memory_mib=self.memory_mib,
                limit_s=limit_s(seconds[place]),
            )
            for place in range(self.number)
        )

    def _stretch(
        self, sizes: Sequence[int], seconds: Sequence[float], arrivals_s: NDArray[np.float64]
    ) -> float:
        """Return the factor of arrivals by which the offered load is what was asked for (the authors' definition of load)."""
        last_s = float(arrivals_s[-1])
        if self.load is None or not last_s:
            return 1.0
        demand_s = sum(size * each for size, each in zip(sizes, seconds, strict=True))
        return demand_s / (self.max_tasks * self.load * last_s)


def tasks_by_model(chance: Random, largest: int) -> int:
    """Draw the size of a job: one task, or a power of two, or any other number."""
    kind = chance.random()
    if kind <= SERIAL_SHARE or largest == 1:
        return 1
    high = math.log2(largest)
    middle = next((m for below in _SIZE_MIDDLE_BELOW if (m := high - below) >= _SIZE_LOW), _SIZE_LOW)
    ends = (_SIZE_LOW, middle) if chance.random() <= _SIZE_FIRST_STAGE else (middle, high)
    logarithm = chance.uniform(*ends)
    if kind <= SERIAL_SHARE + POWER_OF_TWO_SHARE:
        # Of systems that are no power of two, the largest one below.
        logarithm = min(math.floor(logarithm + 0.5), math.floor(high))
    return min(largest, math.floor(2**logarithm + 0.5))


def run_time_s(chance: Random, tasks: int) -> float:
    """Draw how long a job of so many tasks runs: larger ones are more often of the longer kind."""
    slope, offset = _FIRST_BY_SIZE
    first, second = RUN_TIMES
    while True:
        shape, scale = first if chance.random() <= slope * tasks + offset else second
        if (logarithm := chance.gammavariate(shape, scale)) <= _LONGEST_LOG:
            return math.exp(logarithm)


def arrivals_by_model(chance: Random, number: int, start_hour: int) -> NDArray[np.float64]:
    """Draw when jobs come, in seconds from the first one: shape (number,), ascending.

    Gaps are drawn as they are on a whole day's average, and pass faster in the half hours in which more jobs come.
    """
    passed = np.cumsum([0.0, *(_gap_s(chance) for _ in range(number - 1))]) / _HALF_HOUR_S
    weights = np.roll(day_weights(), -2 * start_hour)
    days, rest = np.divmod(passed, _HALF_HOURS)
    # The weights of a day add up to its half hours, so whole days are whole days.
    half_hours = np.interp(rest, np.concatenate([[0.0], np.cumsum(weights)]), np.arange(_HALF_HOURS + 1))
    found: NDArray[np.float64] = (days * _HALF_HOURS + half_hours) * _HALF_HOUR_S
    return found


def day_weights() -> NDArray[np.float64]:
    """Return how many jobs come in each half hour of a day, from midnight, in units of the mean: shape (48,)."""
    shape, scale = _DAY
    number = np.arange(_DAY_BEGINS, _DAY_BEGINS + _HALF_HOURS)
    shares = gammainc(shape, (number + 0.5) / scale) - gammainc(shape, (number - 0.5) / scale)
    weights = np.empty(_HALF_HOURS)
    weights[(number - 1) % _HALF_HOURS] = shares / shares.mean()
    return weights


def _gap_s(chance: Random) -> float:
    while True:
        if (logarithm := chance.gammavariate(*_GAPS)) <= _LONGEST_GAP_LOG:
            return math.exp(logarithm)
