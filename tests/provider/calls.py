"""A provider called as Pulumi calls it, without a process around it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pulumi.provider.experimental import provider as requests
from pulumi.provider.experimental.property_value import PropertyValue

from tidepool.provider.kinds import Kinds
from tidepool.provider.provider import EngineLog, TidepoolProvider
from tidepool.resources.kind import Home
from tidepool.resources.values import plain, property_value

Values = Mapping[str, Any]
_T = TypeVar("_T")


def values(inputs: Values) -> dict[str, PropertyValue]:
    """Inputs as they come from Pulumi; what is one already stays."""
    return {
        key: value if isinstance(value, PropertyValue) else property_value(value)
        for key, value in inputs.items()
    }


def plainly(properties: Mapping[str, PropertyValue] | None) -> dict[str, Any]:
    """What Pulumi is told, as plain values."""
    return {key: plain(value) for key, value in (properties or {}).items()}


def _run(call: Coroutine[Any, Any, _T]) -> _T:
    """As `asyncio.run`, after which the thread has no event loop, and Pulumi's mocks want one."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(call)
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


class Called:
    """A provider, asked about one kind of resource."""

    def __init__(self, provider: TidepoolProvider, token: str) -> None:
        self.provider = provider
        self._urn = f"urn:pulumi:dev::cluster::{token}::it"

    def configure(self, configuration: Values) -> None:
        """Give the provider its configuration."""
        request = requests.ConfigureRequest({}, values(configuration), True, True)
        _run(self.provider.configure(request))

    def failures(self, inputs: Values) -> dict[str, str]:
        """The mistakes that a check finds, by properties."""
        return {failure.property: failure.reason for failure in self._check(inputs).failures or []}

    def checked(self, inputs: Values, old: Values | None = None) -> dict[str, PropertyValue]:
        """The inputs after a check that finds no mistakes; ``old`` are those of a resource that is there already."""
        answer = self._check(inputs, old)
        assert not answer.failures, [vars(failure) for failure in answer.failures]
        return answer.inputs or {}

    def create(self, inputs: Values, *, preview: bool = False) -> requests.CreateResponse:
        return _run(self.provider.create(requests.CreateRequest(self._urn, values(inputs), 30.0, preview)))

    def update(self, id: str, old: Values, new: Values, *, preview: bool = False) -> requests.UpdateResponse:
        request = requests.UpdateRequest(self._urn, id, values(old), values(new), 30.0, [], preview)
        return _run(self.provider.update(request))

    def diff(self, old: Values, new: Values, ignore: list[str] | None = None) -> requests.DiffResponse:
        request = requests.DiffRequest(self._urn, "id", values(old), values(new), ignore or [])
        return _run(self.provider.diff(request))

    def read(self, id: str, state: Values, inputs: Values) -> requests.ReadResponse:
        request = requests.ReadRequest(self._urn, id, values(state), values(inputs))
        return _run(self.provider.read(request))

    def delete(self, id: str, state: Values) -> None:
        _run(self.provider.delete(requests.DeleteRequest(self._urn, id, values(state), 30.0)))

    def _check(self, inputs: Values, old: Values | None = None) -> requests.CheckResponse:
        request = requests.CheckRequest(self._urn, values(old or {}), values(inputs), b"")
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
        found = self.calls._check(self.inputs(demands)).failures or []
        return [(each.property.removeprefix("demands."), each.reason) for each in found]

    def failures(self, demands: Any) -> dict[str, str]:
        """The mistakes, by their places."""
        return dict(self.mistakes(demands))
