"""tidepool:aws:Forwarding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Final

from tidepool.resources.difference import Rules
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader
from tidepool.resources.values import Plain

if TYPE_CHECKING:
    from tidepool.infrastructures.aws.forwarding import Interface

_STATE: Final = "state"
_FORWARDS: Final = "forwards"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the inputs say."""

    region: str
    interface: str


def _open(wanted: Wanted) -> Interface:
    from tidepool.infrastructures.aws.forwarding import interface

    return interface(wanted.region, wanted.interface)


class AwsForwardingKind(Kind[Wanted]):
    """An interface that EC2 lets forward. It goes with its machine, so that there is nothing to take away."""

    token = "tidepool:aws:Forwarding"  # noqa: S105 - a type of resource
    keys = frozenset({"region", "interface", _STATE})
    rules = Rules(replaces=frozenset({"region", "interface"}))
    always: ClassVar[Mapping[str, Plain]] = {_STATE: _FORWARDS}

    def __init__(self, home: Home, open: Callable[[Wanted], Interface] = _open) -> None:
        self._open = open

    def read(self, reader: Reader) -> Wanted:
        reader.text(_STATE, _FORWARDS)
        return Wanted(reader.text("region"), reader.text("interface"))

    def mistakes(self, wanted: Wanted) -> Iterable[Mistake]:
        if find_spec("boto3") is None:
            yield Mistake(
                "region", "the Python package boto3 is not installed; run: .venv/bin/pip install boto3"
            )

    def create(self, wanted: Wanted, task: Task) -> Made:
        self._open(wanted).forward()
        return Made(wanted.interface)

    def update(self, id: str, old: Wanted, wanted: Wanted, task: Task) -> Mapping[str, Plain]:
        self._open(wanted).forward()
        return {}

    def look(self, id: str, state: Wanted) -> Mapping[str, Plain] | None:
        forwards = self._open(state).forwards
        if forwards is None:
            return None
        return AS_KNOWN if forwards else {_STATE: "checked"}
