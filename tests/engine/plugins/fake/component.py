"""The component fake:index:Pair: two Items, and a method that describes it."""

from __future__ import annotations

from typing import Any

import grpc
import light_proto
from google.protobuf import struct_pb2
from values import OUTPUT, SIGNATURE, from_struct, plain, to_struct

provider_pb: Any = light_proto.load("provider_pb2")
resource_pb: Any = light_proto.load("resource_pb2")
resource_grpc: Any = light_proto.load("resource_pb2_grpc")


def construct(request: Any) -> Any:
    """Register the component and its two Items with the engine's monitor."""
    inputs = from_struct(request.inputs)
    channel = grpc.insecure_channel(request.monitorEndpoint, options=[("grpc.enable_http_proxy", 0)])
    with channel:
        monitor = resource_grpc.ResourceMonitorStub(channel)
        pair = monitor.RegisterResource(
            resource_pb.RegisterResourceRequest(
                type=request.type,
                name=request.name,
                parent=request.parent,
                object=request.inputs,
                acceptSecrets=True,
                acceptResources=True,
                dependencies=request.dependencies,
                protect=request.protect if request.HasField("protect") else None,
                aliases=request.aliases,
                supportsResultReporting=True,
            )
        )
        provider = request.providers.get("fake", "")
        first = _item(monitor, request, pair.urn, "first", inputs, provider, [])
        second = _item(monitor, request, pair.urn, "second", inputs, provider, [first.urn])
        outputs = {
            "firstId": first.id or {SIGNATURE: OUTPUT, "dependencies": [first.urn]},
            "secondId": second.id or {SIGNATURE: OUTPUT, "dependencies": [second.urn]},
            "value": inputs.get("value"),
        }
        state = to_struct(outputs)
        monitor.RegisterResourceOutputs(
            resource_pb.RegisterResourceOutputsRequest(urn=pair.urn, outputs=_plainer(outputs))
        )
    urns = provider_pb.ConstructResponse.PropertyDependencies
    return provider_pb.ConstructResponse(
        urn=pair.urn,
        state=state,
        stateDependencies={"firstId": urns(urns=[first.urn]), "secondId": urns(urns=[second.urn])},
    )


def describe(request: Any) -> Any:
    """The method: ``prefix`` and the name of the component it is called on."""
    args = plain(from_struct(request.args))
    urn = args["__self__"]["urn"] if isinstance(args["__self__"], dict) else args["__self__"]
    text = f"{args.get('prefix', '')}{urn.rsplit('::', 1)[-1]}"
    if args.get("fail"):
        failure = provider_pb.CheckFailure(property="fail", reason="the method refuses")
        return provider_pb.CallResponse(failures=[failure])
    urns = provider_pb.CallResponse.ReturnDependencies
    return provider_pb.CallResponse(
        **{"return": to_struct({"text": text})}, returnDependencies={"text": urns(urns=[urn])}
    )


def _item(
    monitor: Any,
    request: Any,
    parent: str,
    which: str,
    inputs: dict[str, Any],
    provider: str,
    depends_on: list[str],
) -> Any:
    return monitor.RegisterResource(
        resource_pb.RegisterResourceRequest(
            type="fake:index:Item",
            name=f"{request.name}-{which}",
            parent=parent,
            custom=True,
            object=_plainer({"value": inputs.get("value"), "fail": inputs.get(f"{which}Fail")}),
            dependencies=depends_on,
            provider=provider,
            acceptSecrets=True,
            acceptResources=True,
            supportsResultReporting=True,
        )
    )


def _plainer(properties: dict[str, Any]) -> struct_pb2.Struct:
    """As the monitor takes them: without None; outputs as what they hold."""
    return to_struct({k: _without_output(v) for k, v in properties.items() if v is not None})


def _without_output(value: Any) -> Any:
    if isinstance(value, dict) and value.get(SIGNATURE) == OUTPUT:
        from values import UNKNOWN, secret

        element = value.get("value", UNKNOWN)
        return secret(element) if value.get("secret") else element
    return value
