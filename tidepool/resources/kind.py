"""The interface of a kind of resource, its arguments and its errors."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from tidepool.cluster.failures import Cause, Note
from tidepool.resources.model import Model, Resource
from tidepool.resources.reading import Change, Mistake, differences
from tidepool.resources.values import Inputs, Plain


class Refusal(Exception):
    """It is not done. The text is for a person: what, where, what is allowed, the remedy.

    ``cause`` is the kind of failure, for who decides what to do next; None where it may be any.
    """

    def __init__(self, text: str, cause: Cause | None = None) -> None:
        super().__init__(text)
        self.cause = cause


@dataclass
class Unfinished(Exception):
    """Something was made, but it is not as it should be: Pulumi keeps it, and the next `up` goes on from there."""

    id: str
    reason: str
    outputs: Mapping[str, Plain] = field(default_factory=dict)
    cause: Cause | None = None

    def __str__(self) -> str:
        return self.reason


T = TypeVar("T", bound=Model)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Home:
    """The folders of this machine in which resources are kept: of data, of images; and the provider's environment."""

    data: Path
    images: Path
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """One operation on the resource ``urn``: how long it may take, and where to say how far it is.

    ``status`` is shown for as long as the operation runs, ``info`` and ``warn`` stay. Once it is ``cancelled``, a person
    has asked for the end: what would wait for long ends soon.
    """

    urn: str
    timeout_s: float
    deadline: float
    status: Say
    info: Say
    warn: Say
    cancelled: Callable[[], bool] = lambda: False

    @property
    def left_s(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def wait(
        self,
        why_not: Callable[[], str],
        doing: str,
        pause_s: float,
        sleep: Callable[[float], None] = time.sleep,
    ) -> str:
        """Wait until ``why_not`` has no reason more; gives the last one where the deadline comes first, else nothing.

        Each reason is shown, behind ``doing``, and again only after another one: it may be written where no terminal is.
        """
        shown = ""
        while why := why_not():
            if self.left_s <= pause_s:
                return why
            if why != shown:
                self.status(f"{doing}: {why}")
            shown = why
            sleep(pause_s)
        return ""

    def anew(self) -> Self:
        """The same with all of its time, for one that waited for others of its kind."""
        return replace(self, deadline=time.monotonic() + self.timeout_s)


@dataclass(frozen=True, slots=True)
class Made:
    """A resource that was made: its id, and what it has beside its inputs."""

    id: str
    outputs: Mapping[str, Plain] = field(default_factory=dict)


class Kind(ABC, Generic[T]):
    """The work of a kind of resource; ``T`` is its model.

    All of it may be called from many threads at once. `mistakes`, `foreseen` and `diff` change nothing.
    `create`, `update` and `delete` may be called again after one that was cut off anywhere.
    """

    #: The declaration.
    resource: ClassVar[type[Resource]]
    #: How long creating, updating and deleting may take where nobody says otherwise.
    timeout_s: ClassVar[float] = 120.0

    def __init__(self, home: Home) -> None:
        self._home = home

    def mistakes(self, wanted: T) -> Iterable[Mistake | Note]:
        """Find what is wrong with inputs that are all known, and each by itself right; asked before anything is made.

        Beside that it may note what a person should read; previews show it, too.
        """
        return ()

    def derived(self, wanted: T) -> Mapping[str, Plain]:
        """The inputs that are declared so: they follow from the others, and decide about changes."""
        return {}

    def diff(self, old: Inputs, new: Inputs) -> tuple[Change, ...]:
        return differences(self.resource.model, old, new)

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        """Outputs beside the inputs, as far as they are known before the resource is made."""
        return {}

    @abstractmethod
    def create(self, wanted: T, task: Task) -> Made:
        """Make it; what is there already is taken as it is.

        Raises:
            Unfinished: it was made, and is not yet what it should be.
        """

    def refuse_update(self, old: T, wanted: T) -> Iterable[Note] | None:
        """Raise what speaks against an update, and note what a person should read of it; asked in previews, too."""
        return None

    def update(self, id: str, old: T, wanted: T, task: Task) -> Mapping[str, Plain]:
        """Change it in place; gives the outputs beside the inputs, where they are others than `foreseen`."""
        return {}

    def look(self, id: str, state: T) -> Mapping[str, Plain] | None:
        """The inputs and outputs that are otherwise in the world than in the state; None where it is gone, and nothing is left."""
        return {}

    def delete(self, id: str, state: T, task: Task) -> None:
        """Take it away; what is gone already is no error."""


class IdempotentKind(Kind[T]):
    """A kind whose `create` brings what is there already to what is wanted, too: an update is the same work."""

    def update(self, id: str, old: T, wanted: T, task: Task) -> Mapping[str, Plain]:
        return self.create(wanted, task).outputs


AnyKind = Kind[Any]

#: What `Kind.look` gives for a resource that is as the state has it.
AS_KNOWN: Final[Mapping[str, Plain]] = {}
