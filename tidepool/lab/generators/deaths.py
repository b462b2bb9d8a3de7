"""Deaths: gangs, while machines are killed in the middle and come back; what had run on them is to run again."""

from __future__ import annotations

from random import Random

from pydantic import Field

from tidepool.cluster.part import Whole
from tidepool.lab.generators.gang import Gang
from tidepool.lab.workload import Death


class Deaths(Gang):
    """Parameters of gangs on machines that die."""

    machines: Whole = Field(
        default=2,
        ge=1,
        le=100_000,
        description="How many of the laboratory's machines may die, counted from the first; which one is chance",
    )
    deaths_number: Whole = Field(default=1, ge=1, le=1000, description="How many deaths", alias="deaths")
    first_s: float = Field(
        default=4.0, ge=0, le=86400, allow_inf_nan=False, description="When the first machine dies"
    )
    death_interval_s: float = Field(
        default=20.0, gt=0, le=86400, allow_inf_nan=False, description="Seconds between a death and the next"
    )
    back_after_s: float = Field(
        default=5.0, gt=0, le=86400, allow_inf_nan=False, description="How long a machine is away"
    )

    def deaths(self, chance: Random) -> tuple[Death, ...]:
        return tuple(
            Death(
                self.first_s + number * self.death_interval_s,
                chance.randrange(self.machines),
                self.back_after_s,
            )
            for number in range(self.deaths_number)
        )
