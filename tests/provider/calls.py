"""A provider called as Pulumi calls it, without a process around it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.struct_pb2 import Struct, Value
from pulumi.runtime.proto import provider_pb2 as protocol

from tidepool.provider.kinds import Kinds
from tidepool.provider.provider import EngineLog, TidepoolProvider
from tidepool.resources.kind import Home
from tidepool.resources.values import Properties, plain, property_value

Values = Mapping[str, Any]
_T = TypeVar("_T")


def values(inputs: Values) -> Struct:
    """Inputs as they come from Pulumi; what is such a value already stays."""
    return Struct(
        fields={
            key: value if isinstance(value, Value) else property_value(value) for key, value in inputs.items()
        }
    )


def plainly(properties: Properties | Struct) -> dict[str, Any]:
    """What Pulumi is told, as plain values."""
    fields = properties.fields if isinstance(properties, Struct) else properties
    return {key: plain(value) for key, value in fields.items()}


@dataclass(frozen=True)
class Answer:
    """What is told of a resource: its id, where there is one, and its properties."""

    resource_id: str | None
    properties: Properties
    inputs: Properties = field(default_factory=dict)


def _run(call: Coroutine[Any, Any, _T]) -> _T:
    """As `asyncio.run`, after which the thread has no event loop, and Pulumi's mocks want one."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(call)
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


@dataclass(frozen=True)
class Difference:
    """What is told of a difference; ``kinds`` by property, as the protocol names them."""

    changes: bool
    diffs: list[str]
    replaces: list[str]
    delete_before_replace: bool
    kinds: Mapping[str, str]


class Called:
    """A provider, asked about one kind of resource."""

    def __init__(self, provider: TidepoolProvider, token: str) -> None:
        self.provider = provider
        self._urn = f"urn:pulumi:dev::cluster::{token}::it"

    def configure(self, configuration: Values) -> None:
        """Give the provider its configuration."""
        _run(self.provider.configure(values(configuration).fields))

    def failures(self, inputs: Values) -> dict[str, str]:
        """The mistakes that a check finds, by properties."""
        return {failure.property: failure.reason for failure in self.check(inputs).failures}

    def checked(self, inputs: Values, old: Values | None = None) -> Properties:
        """The inputs after a check that finds no mistakes; ``old`` are those of a resource that is there already."""
        answer = self.check(inputs, old)
        assert not answer.failures, answer.failures
        return dict(answer.inputs.fields)

    def create(self, inputs: Values, *, preview: bool = False) -> Answer:
        request = protocol.CreateRequest(
            urn=self._urn, properties=values(inputs), timeout=30.0, preview=preview
        )
        made = _run(self.provider.create(request))
        return Answer(made.id or None, dict(made.properties.fields))

    def update(self, id: str, old: Values, new: Values, *, preview: bool = False) -> Answer:
        request = protocol.UpdateRequest(
            id=id, urn=self._urn, olds=values(old), news=values(new), timeout=30.0, preview=preview
        )
        return Answer(id, dict(_run(self.provider.update(request)).properties.fields))

    def diff(self, old: Values, new: Values, ignore: list[str] | None = None) -> Difference:
        request = protocol.DiffRequest(
            id="id", urn=self._urn, olds=values(old), news=values(new), ignoreChanges=ignore
        )
        found = _run(self.provider.diff(request))
        kinds = {key: protocol.PropertyDiff.Kind.Name(each.kind) for key, each in found.detailedDiff.items()}
        changes = found.changes == protocol.DiffResponse.DIFF_SOME
        return Difference(changes, list(found.diffs), list(found.replaces), found.deleteBeforeReplace, kinds)

    def read(self, id: str, state: Values, inputs: Values) -> Answer:
        request = protocol.ReadRequest(id=id, urn=self._urn, properties=values(state), inputs=values(inputs))
        found = _run(self.provider.read(request))
        return Answer(found.id or None, dict(found.properties.fields), dict(found.inputs.fields))

    def delete(self, id: str, state: Values) -> None:
        request = protocol.DeleteRequest(id=id, urn=self._urn, properties=values(state), timeout=30.0)
        _run(self.provider.delete(request))

    def check(self, inputs: Values, old: Values | None = None) -> protocol.CheckResponse:
        request = protocol.CheckRequest(urn=self._urn, olds=values(old or {}), news=values(inputs))
        return _run(self.provider.check(request))


class Calls(Called):
    """The provider of the data folder ``data``, asked about one kind of resource."""

    def __init__(self, data: Path, token: str) -> None:
        home = Home(data, data / "images")
        super().__init__(TidepoolProvider(Kinds(home).of, EngineLog("")), token)


class Preflights:
    """The kind of preflights, asked about one infrastructure: inputs are the demands, and so are the mistakes' places."""

    def __init__(self, data: Path, infrastructure: str) -> None:
        self.calls = Calls(data, "tidepool:infrastructure:Preflight")
        self._infrastructure = infrastructure

    def inputs(self, demands: Any) -> dict[str, Any]:
        """The inputs of the resource."""
        return {"infrastructure": self._infrastructure, "path": "options", "demands": demands}

    def mistakes(self, demands: Any) -> list[tuple[str, str]]:
        """All that a check finds, in its order; of all that is lacking the place is the path."""
        found = self.calls.check(self.inputs(demands)).failures
        return [(each.property.removeprefix("demands."), each.reason) for each in found]

    def failures(self, demands: Any) -> dict[str, str]:
        """The mistakes, by their places."""
        return dict(self.mistakes(demands))
