"""What a person's program imports to use the cloud plugin, as a generated SDK would be."""

from __future__ import annotations

from typing import Any

import pulumi

_OUTPUTS = ("address", "serial", "revision")


class Server(pulumi.CustomResource):
    """``cloud:index:Server``; any input is taken, see the plugin for how each behaves."""

    address: pulumi.Output[str]
    serial: pulumi.Output[int]
    revision: pulumi.Output[int]

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, **inputs: Any) -> None:
        outputs: dict[str, Any] = dict.fromkeys(_OUTPUTS)
        super().__init__("cloud:index:Server", name, outputs | inputs, opts)

    @classmethod
    def get(cls, name: str, id: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None) -> Server:
        """Read a server that something else made."""
        return cls(name, pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(id=id)))


class Volume(pulumi.CustomResource):
    """``cloud:index:Volume``, like a server."""

    address: pulumi.Output[str]
    serial: pulumi.Output[int]
    revision: pulumi.Output[int]

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, **inputs: Any) -> None:
        outputs: dict[str, Any] = dict.fromkeys(_OUTPUTS)
        super().__init__("cloud:index:Volume", name, outputs | inputs, opts)


class Database(pulumi.CustomResource):
    """``cloud:index:Database``: ``password`` in, ``connection`` out."""

    address: pulumi.Output[str]
    connection: pulumi.Output[str]

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, **inputs: Any) -> None:
        outputs: dict[str, Any] = dict.fromkeys((*_OUTPUTS, "connection"))
        super().__init__("cloud:index:Database", name, outputs | inputs, opts)


class Plain(pulumi.CustomResource):
    """``cloud:index:Plain``, whose comparison the plugin leaves to the engine."""

    address: pulumi.Output[str]

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, **inputs: Any) -> None:
        outputs: dict[str, Any] = dict.fromkeys(_OUTPUTS)
        super().__init__("cloud:index:Plain", name, outputs | inputs, opts)


class Provider(pulumi.ProviderResource):
    """The cloud provider itself, with its configuration."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, **inputs: Any) -> None:
        super().__init__("cloud", name, inputs, opts)
