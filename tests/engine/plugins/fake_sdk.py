"""Resource classes of the package `fake`, as a program uses them: put this folder on PYTHONPATH."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi


class Provider(pulumi.ProviderResource):
    """An explicit provider. A change of ``account`` replaces it; ``unusable`` makes Configure fail."""

    def __init__(
        self,
        name: str,
        account: pulumi.Input[str] | None = None,
        unusable: pulumi.Input[bool] | None = None,
        invalid: pulumi.Input[bool] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("fake", name, _given(account=account, unusable=unusable, invalid=invalid), opts)


class Item(pulumi.CustomResource):
    """A line in the world's file. ``serial`` counts the items ever made under the same ``name``."""

    name: pulumi.Output[str]
    value: pulumi.Output[Any]
    size: pulumi.Output[float | None]
    tags: pulumi.Output[Any]
    secret: pulumi.Output[str | None]
    replace: pulumi.Output[str | None]
    serial: pulumi.Output[int]
    token: pulumi.Output[str | None]

    _token = "fake:index:Item"

    def __init__(
        self,
        resource_name: str,
        *,
        name: pulumi.Input[str] | None = None,
        value: pulumi.Input[Any] = None,
        size: pulumi.Input[float] | None = None,
        tags: pulumi.Input[Mapping[str, Any] | Sequence[Any]] | None = None,
        secret: pulumi.Input[str] | None = None,
        mint: pulumi.Input[bool] | None = None,
        replace: pulumi.Input[str] | None = None,
        fail: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
        **more: pulumi.Input[Any],
    ) -> None:
        inputs = _given(
            name=name,
            value=value,
            size=size,
            tags=tags,
            secret=secret,
            mint=mint,
            replace=replace,
            fail=fail,
            **more,
        )
        super().__init__(self._token, resource_name, inputs | {"serial": None, "token": None}, opts)

    @classmethod
    def get(
        cls, resource_name: str, id: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None
    ) -> Item:
        """An item that exists already, found by its id."""
        return cls(resource_name, opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(id=id)))


class Loose(Item):
    """An item whose comparison the provider leaves to the engine."""

    _token = "fake:index:Loose"


class Slow(pulumi.CustomResource):
    """A resource each of whose operations takes ``seconds``."""

    name: pulumi.Output[str]
    serial: pulumi.Output[int]

    def __init__(
        self,
        resource_name: str,
        seconds: pulumi.Input[float],
        value: pulumi.Input[Any] = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(
            "fake:index:Slow",
            resource_name,
            _given(seconds=seconds, value=value) | {"serial": None, "name": None},
            opts,
        )


class Pair(pulumi.ComponentResource):
    """A component that the provider makes: two items, the second after the first."""

    # Named as they are sent: without a schema the SDK knows no other names.
    firstId: pulumi.Output[str]  # noqa: N815
    secondId: pulumi.Output[str]  # noqa: N815
    value: pulumi.Output[Any]

    def __init__(
        self,
        resource_name: str,
        value: pulumi.Input[Any] = None,
        fail: pulumi.Input[str] | None = None,
        first_fail: pulumi.Input[str] | None = None,
        second_fail: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = _given(value=value, fail=fail, firstFail=first_fail, secondFail=second_fail)
        super().__init__(
            "fake:index:Pair", resource_name, inputs | {"firstId": None, "secondId": None}, opts, remote=True
        )

    def describe(self, prefix: pulumi.Input[str] = "", fail: bool = False) -> pulumi.Output[Any]:
        """The method: the prefix and the component's name, under the key ``text``."""
        args = {"__self__": self, "prefix": prefix} | ({"fail": True} if fail else {})
        return pulumi.runtime.call("fake:index:Pair/describe", args, res=self)


def echo(args: Mapping[str, Any], opts: pulumi.InvokeOptions | None = None) -> pulumi.runtime.InvokeResult:
    """The function that returns its arguments."""
    return pulumi.runtime.invoke("fake:index:echo", dict(args), opts).value  # type: ignore[no-any-return]


def echo_output(
    args: Mapping[str, Any], opts: pulumi.InvokeOutputOptions | None = None
) -> pulumi.Output[Any]:
    """The function that returns its arguments, which may be outputs."""
    return pulumi.runtime.invoke_output("fake:index:echo", dict(args), opts)


def lookup(id: str, opts: pulumi.InvokeOptions | None = None) -> Any:
    """What the world has under ``id``."""
    return pulumi.runtime.invoke("fake:index:lookup", {"id": id}, opts).value


def reject(opts: pulumi.InvokeOptions | None = None) -> Any:
    """The function that refuses its arguments."""
    return pulumi.runtime.invoke("fake:index:reject", {}, opts).value


def fail(opts: pulumi.InvokeOptions | None = None) -> Any:
    """The function that fails."""
    return pulumi.runtime.invoke("fake:index:fail", {}, opts).value


def _given(**inputs: Any) -> dict[str, Any]:
    return {k: v for k, v in inputs.items() if v is not None}
