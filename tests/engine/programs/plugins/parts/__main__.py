"""A provider of components: ``parts:index:Cluster`` with two methods, made of resources of the cloud plugin."""

from __future__ import annotations

import sys
from typing import Any

import pulumi
import pulumi.provider as provider


class Node(pulumi.CustomResource):
    """A ``cloud:index:Server``, as the cloud's own SDK would register it."""

    address: pulumi.Output[str]

    def __init__(self, name: str, inputs: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        outputs: dict[str, Any] = {"address": None, "serial": None, "revision": None}
        super().__init__("cloud:index:Server", name, outputs | inputs, opts)


class Cluster(pulumi.ComponentResource):
    """Some servers and their common address."""

    def __init__(self, name: str, inputs: dict[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("parts:index:Cluster", name, inputs, opts)
        if opts is not None and opts.urn:
            return  # one that exists, seen by a method
        mine = pulumi.ResourceOptions(parent=self)
        self.head = Node(f"{name}-head", {"size": inputs["size"], "secret": inputs.get("secret")}, mine)
        self.worker = Node(f"{name}-worker", {"peer": self.head.address}, mine)
        self.state = {"address": self.head.address, "size": inputs["size"], "secret": inputs.get("secret")}
        self.register_outputs(self.state)


class Module(pulumi.runtime.ResourceModule):
    """How a reference to one of these components becomes an object again."""

    def version(self) -> str:
        return Parts.VERSION

    def construct(self, name: str, typ: str, urn: str) -> pulumi.Resource:
        return Cluster(name, {"address": None, "size": None, "secret": None}, pulumi.ResourceOptions(urn=urn))


class Parts(provider.Provider):
    """The provider's calls."""

    VERSION = "1.0.0"

    def __init__(self) -> None:
        super().__init__(Parts.VERSION)
        pulumi.runtime.register_resource_module("parts", "index", Module())

    def construct(
        self, name: str, resource_type: str, inputs: Any, options: pulumi.ResourceOptions | None = None
    ) -> provider.ConstructResult:
        if resource_type != "parts:index:Cluster":
            raise Exception(f"unknown component {resource_type}")
        if inputs.get("broken"):
            raise ValueError("this cluster cannot be made")
        cluster = Cluster(name, inputs, options)
        return provider.ConstructResult(urn=cluster.urn, state=cluster.state)

    def call(self, token: str, args: Any) -> provider.CallResult:
        cluster = args["__self__"]
        match token:
            case "parts:index:Cluster/greet":
                return provider.CallResult(
                    outputs={"text": pulumi.Output.concat(args["greeting"], " from ", cluster.address)}
                )
            case "parts:index:Cluster/refuse":
                failure = provider.CheckFailure("greeting", "is not polite")
                return provider.CallResult(outputs=None, failures=[failure])
        raise Exception(f"unknown method {token}")


if __name__ == "__main__":
    provider.main(Parts(), sys.argv[1:])
