"""Kinds of resources of aws: the provider's side of `tidepool.infrastructures.aws.resources`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from tidepool.infrastructures.aws.resources import AwsForwarding, AwsForwardingModel
from tidepool.resources.kind import AS_KNOWN, IdempotentKind, Made, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain


class AwsForwardingKind(IdempotentKind[AwsForwardingModel]):
    """An interface that EC2 lets forward. It goes with its machine, so that there is nothing to take away."""

    resource = AwsForwarding

    def mistakes(self, wanted: AwsForwardingModel) -> Iterable[Mistake]:
        if find_spec("boto3") is None:
            yield Mistake(
                "region", "the Python package boto3 is not installed; run: .venv/bin/pip install boto3"
            )

    def create(self, wanted: AwsForwardingModel, task: Task) -> Made:
        # It imports boto3, which the provider of a stack that has no AWS is spared.
        from tidepool.infrastructures.aws.session import forward

        forward(wanted.region, wanted.interface)
        return Made(wanted.interface)

    def look(self, id: str, state: AwsForwardingModel) -> Mapping[str, Plain] | None:
        from tidepool.infrastructures.aws.session import forwards

        found = forwards(state.region, state.interface)
        if found is None:
            return None
        return AS_KNOWN if found else {"state": "checked"}
