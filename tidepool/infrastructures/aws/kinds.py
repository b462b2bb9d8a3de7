"""Kinds of resources of aws: the provider's side of `tidepool.infrastructures.aws.resources`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from tidepool.infrastructures.aws.resources import AwsForwarding, AwsForwardingModel
from tidepool.resources.kind import AS_KNOWN, Home, IdempotentKind, Made, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain

if TYPE_CHECKING:
    from tidepool.infrastructures.aws.session import Interface

_STATE: Final = "state"


def _open(wanted: AwsForwardingModel) -> Interface:
    from tidepool.infrastructures.aws.session import interface

    return interface(wanted.region, wanted.interface)


class AwsForwardingKind(IdempotentKind[AwsForwardingModel]):
    """An interface that EC2 lets forward. It goes with its machine, so that there is nothing to take away."""

    resource = AwsForwarding

    def __init__(self, home: Home, open: Callable[[AwsForwardingModel], Interface] = _open) -> None:
        self._open = open

    def mistakes(self, wanted: AwsForwardingModel) -> Iterable[Mistake]:
        if find_spec("boto3") is None:
            yield Mistake(
                "region", "the Python package boto3 is not installed; run: .venv/bin/pip install boto3"
            )

    def create(self, wanted: AwsForwardingModel, task: Task) -> Made:
        self._open(wanted).forward()
        return Made(wanted.interface)

    def look(self, id: str, state: AwsForwardingModel) -> Mapping[str, Plain] | None:
        forwards = self._open(state).forwards
        if forwards is None:
            return None
        return AS_KNOWN if forwards else {_STATE: "checked"}
