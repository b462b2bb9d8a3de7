"""Scaling of a cluster: which policies say how many nodes there should be. What they do is the scaler's."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field

from tidepool.cluster.part import Part, Whole, read_name

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


def _clock(value: Any) -> Any:
    if not isinstance(value, str) or not _CLOCK.fullmatch(value):
        raise ValueError('write a time of day in quotes, as "08:00"; YAML takes 8:00 for a number')
    return value


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError("write a time zone of the IANA database, such as Europe/Zurich or UTC") from error
    return value


Clock = Annotated[str, BeforeValidator(_clock)]
Zone = Annotated[str, AfterValidator(_zone)]


class Queue(Part):
    """Nodes for all that waits, at once."""

    name: Literal["queue"] = Field(default="queue", description="`queue`.")


class Backlog(Part):
    """As few nodes as drain the queue in time, by the time limits of the jobs. In place of `queue`."""

    name: Literal["backlog"] = Field(description="`backlog`.")
    minutes: Whole = Field(ge=1, description="Within how many minutes what waits should have ended.")


class Warm(Part):
    """Idle nodes that wait for jobs, beside those that are busy; and machines that are suspended to disk."""

    name: Literal["warm"] = Field(description="`warm`.")
    fleet: str = Field(description="Of which fleet.")
    nodes: Whole = Field(ge=0, description="How many nodes.")
    suspended: Whole = Field(
        default=0,
        ge=0,
        description="How many machines besides are kept with their memory on disk, and go on before another one boots: of libvirt.",
    )


class Schedule(Part):
    """Nodes that are there at certain hours, however empty the queue is."""

    name: Literal["schedule"] = Field(description="`schedule`.")
    fleet: str = Field(description="Of which fleet.")
    nodes: Whole = Field(ge=1, description="How many.")
    days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] = Field(
        default=DAYS, min_length=1, description="On which days; all by default."
    )
    begin: Clock = Field(description='From when on: `"08:00"`.')
    end: Clock = Field(description="Until when; of the next day where that is not later than `begin`.")
    timezone: Zone = Field(default="UTC", description="Whose clock: `Europe/Zurich`.")


class Account(Part):
    """A cap: nodes for the jobs of one of Slurm's accounts."""

    name: Literal["account"] = Field(description="`account`.")
    account: str = Field(min_length=1, description="Which account.")
    max_nodes: Whole = Field(ge=0, description="How many nodes its jobs may have, running and waited for.")


Policy = Annotated[
    Annotated[Queue | Backlog | Warm | Schedule | Account, Field(discriminator="name")],
    BeforeValidator(read_name),
]


class Scaling(Part):
    """Settings of the scaler. They are read from the file whenever that changes; all the rest of the spec by `up`."""

    mode: Literal["slots", "power_save"] = Field(
        default="slots",
        description="Who asks for nodes: the scaler, from the queue (`slots`), or Slurm's power saving (`power_save`), "
        "which is slower.",
    )
    policies: tuple[Policy, ...] = Field(
        default=(Queue(),),
        description="What nodes are there for: names, or more details as below. Without `queue` and `backlog` none are "
        "made for jobs.",
    )
    boot_timeout_s: Whole = Field(
        default=60,
        ge=1,
        description="How long a node may take, in seconds, until it is up, when it was made; then it is replaced.",
    )
