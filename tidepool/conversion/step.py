"""Steps of a conversion: what can be looked at, what can be done, and the words for both. Frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import Role
from tidepool.conversion.control_nodes import Verdict
from tidepool.conversion.ports import Sight
from tidepool.conversion.record import Phase, Work

_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()
_FREE: Final = Verdict()
_MOST_NAMED: Final = 3

Verb = Literal[
    "hold",
    "release",
    "ask_to_leave",
    "force_out",
    "prepare",
    "admit",
    "remove_node",
    "take",
    "lose",
    "hand_over",
]
#: How people call the roles.
SAID: Final[Mapping[Role, str]] = FrozenDict({"slurm": "Slurm", "kubernetes": "Kubernetes"})


@dataclass(frozen=True, slots=True)
class Looks:
    """Looks at what the next step needs, in this order. What is not asked for may be missing in `Observed`."""

    roles: bool = False
    sights: tuple[Role, ...] = ()
    #: Of this side, after its sight: what runs there.
    work: Role | None = None
    #: Whether the machine runs a part of a control plane, and may go.
    control: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of just now, as far as `looks` asked for them."""

    roles: frozenset[Role] = frozenset()
    sights: Mapping[Role, Sight] = field(default_factory=lambda: _NOTHING)
    #: Who else holds the machine back, on the sides that see it ``held``.
    held_by: Mapping[Role, str] = field(default_factory=lambda: _NOTHING)
    work: tuple[Work, ...] = ()
    #: This process has prepared the side that is joined, since the machine last took the role.
    prepared: bool = False
    #: What it runs of a control plane.
    control: Verdict = _FREE
    #: Who could not be asked, and what was said: then nothing of it is known.
    unknown: Mapping[Role | Literal["machine"], str] = field(default_factory=lambda: _NOTHING)
    #: Who could be asked and, the last time, could not do what it was asked.
    failing: Mapping[Role | Literal["machine"], str] = field(default_factory=lambda: _NOTHING)
    #: Somebody said that it will not be, ever.
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """Do it to the side of ``role``, or to the machine; then look again: at once, or when ``text`` may have changed.

    With a ``mark``, ``<phase>/<mark>`` is written when it is done.
    """

    verb: Verb
    role: Role
    mark: str = ""
    waits: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Enter:
    """Begin the next phase, or end."""

    phase: Phase
    text: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Write ``<phase>/<mark>`` before anything is done, and what runs there, so that nothing goes unrecorded."""

    mark: str


@dataclass(frozen=True, slots=True)
class Wait:
    """There is nothing to do but to look again."""

    text: str


Step = Act | Enter | Mark | Wait


def other(role: Role) -> Role:
    """The role that a machine with ``role`` has not."""
    return "kubernetes" if role == "slurm" else "slurm"


def what_holds(work: Iterable[Work]) -> str:
    """Say what is waited for: the first few, and how many there are."""
    there = list(work)
    named = [
        f"{each.title}{f' of {each.owner}' if each.owner else ''}{f' ({each.text})' if each.text else ''}"
        for each in there[:_MOST_NAMED]
    ]
    more = len(there) - len(named)
    return "waits for " + ", ".join(named) + (f" and {more} more" if more else "")
