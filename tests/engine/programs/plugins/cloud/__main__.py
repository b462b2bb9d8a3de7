"""A provider of a small cloud: ``cloud:index:Server`` and friends.

Values stay in their wire form (a secret or an unknown is what the protocol makes of it), so nothing is
lost between what the engine sends and what the list of calls says it sent. How an input behaves:
``zone`` replaces, ``image`` replaces after deletion, ``note`` is not compared, all others update.
``cloud:index:Plain`` leaves the comparison to the engine. An id is ``NAME-N`` for the N-th of that name.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent import futures
from pathlib import Path
from typing import Any, NoReturn

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from world import World

from tidepool.engine.rpc import messages

# The messages alone: `import pulumi` takes longer than most of what a scenario asks of this plugin.
plugin_pb2, provider_pb2, status_pb2 = (messages(name) for name in ("plugin_pb2", "provider_pb2", "status_pb2"))

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
REPLACES = ("zone", "image")


class _Status(grpc.Status):
    def __init__(self, code: grpc.StatusCode, details: str, trailing_metadata: Any) -> None:
        self.code, self.details, self.trailing_metadata = code, details, trailing_metadata


def _plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    def whole(value: Any) -> Any:
        match value:
            case float() if value.is_integer():
                return int(value)
            case dict():
                return {k: whole(v) for k, v in value.items()}
            case list():
                return [whole(v) for v in value]
        return value

    return whole(json_format.MessageToDict(struct))


def _struct(values: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(values, struct_pb2.Struct())


def _name(urn: str) -> str:
    return urn.rsplit("::", 1)[-1]


def _type(urn: str) -> str:
    return urn.split("::")[2].rsplit("$", 1)[-1]


def _details(olds: dict[str, Any], news: dict[str, Any], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key in sorted(olds.keys() | news.keys()):
        path = f"{prefix}{key}"
        if key not in olds:
            found[path] = "ADD"
        elif key not in news:
            found[path] = "DELETE"
        elif olds[key] != news[key]:
            if path == "tags" and isinstance(olds[key], dict) and isinstance(news[key], dict):
                found |= _details(olds[key], news[key], "tags.")
            else:
                found[path] = "UPDATE"
    return found


class Cloud(messages("provider_pb2_grpc").ResourceProviderServicer):  # type: ignore[misc]
    """The provider's calls."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cancelled = threading.Event()
        self._region = "nowhere"

    # -- about the plugin itself

    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=True, accept_resources=True, accept_outputs=False
        )

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="1.0.0")

    def GetSchema(self, request: Any, context: Any) -> Any:
        return provider_pb2.GetSchemaResponse(schema='{"name": "cloud", "version": "1.0.0"}')

    def CheckConfig(self, request: Any, context: Any) -> Any:
        news = _plain(request.news)
        failures = []
        if news.get("region") == "moon":
            failures.append(provider_pb2.CheckFailure(property="region", reason="there is no cloud there"))
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        olds, news = _plain(request.old_inputs), _plain(request.news)
        changed = sorted(k for k in olds.keys() | news.keys() if olds.get(k) != news.get(k))
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE,
            diffs=changed,
            replaces=[k for k in changed if k == "account"],
        )

    def Configure(self, request: Any, context: Any) -> Any:
        arguments = _plain(request.args)
        self._region = arguments.get("region", "nowhere")
        self._note("configure", request.urn, args=arguments)
        modern = arguments.get("old") != "true"
        return provider_pb2.ConfigureResponse(
            acceptSecrets=modern, supportsPreview=modern, acceptResources=modern, acceptOutputs=False
        )

    def Cancel(self, request: Any, context: Any) -> Any:
        self._cancelled.set()
        return empty_pb2.Empty()

    # -- resources

    def Check(self, request: Any, context: Any) -> Any:
        olds, news = _plain(request.olds), _plain(request.news)
        self._note("check", request.urn, olds=olds, news=news)
        failures = []
        size = news.get("size")
        if isinstance(size, int) and size < 0:
            failures.append(provider_pb2.CheckFailure(property="size", reason="must not be negative"))
        if _type(request.urn) == "cloud:index:Server":
            news.setdefault("tier", "basic")
        return provider_pb2.CheckResponse(inputs=_struct(news), failures=failures)

    def Diff(self, request: Any, context: Any) -> Any:
        olds, news = _plain(request.old_inputs), _plain(request.news)
        self._note("diff", request.urn, id=request.id, old_inputs=olds, news=news,
                   olds=_plain(request.olds), ignore_changes=list(request.ignoreChanges))  # fmt: skip
        self._stumble("diff", request.urn, context)
        if _type(request.urn) == "cloud:index:Plain":
            return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_UNKNOWN)
        details = {path: kind for path, kind in _details(olds, news).items() if path != "note"}
        keys = sorted({path.split(".")[0] for path in details})
        kinds = provider_pb2.PropertyDiff.Kind
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if details else provider_pb2.DiffResponse.DIFF_NONE,
            replaces=[k for k in keys if k in REPLACES],
            stables=["serial"] if not any(k in REPLACES for k in keys) else [],
            diffs=keys,
            deleteBeforeReplace="image" in keys,
            hasDetailedDiff=True,
            detailedDiff={
                path: provider_pb2.PropertyDiff(
                    kind=kinds.Value(kind + "_REPLACE" if path in REPLACES else kind), inputDiff=True
                )
                for path, kind in details.items()
            },
        )

    def Create(self, request: Any, context: Any) -> Any:
        inputs, urn = _plain(request.properties), request.urn
        self._note("create", urn, inputs=inputs, timeout=request.timeout, preview=request.preview)
        if request.preview:
            return provider_pb2.CreateResponse(properties=_struct(self._planned(inputs)))
        fault = self._stumble("create", urn, context)
        serial = self._world.next_serial(_name(urn))
        id = f"{_name(urn)}-{serial}"
        outputs = {**inputs, "address": f"{id}.{self._region}", "serial": serial, "revision": 1}
        if "password" in inputs:
            outputs["connection"] = f"cloud://{id}"
        self._world.put(id, {"type": _type(urn), "inputs": inputs, "outputs": outputs})
        self._stumble_after(fault, id, outputs, context)
        return provider_pb2.CreateResponse(id=id, properties=_struct(outputs))

    def Read(self, request: Any, context: Any) -> Any:
        self._note("read", request.urn, id=request.id, inputs=_plain(request.inputs),
                   properties=_plain(request.properties))  # fmt: skip
        fault = self._stumble("read", request.urn, context)
        thing = self._world.get(request.id)
        if thing is None:
            return provider_pb2.ReadResponse(id="")
        self._stumble_after(fault, request.id, thing["outputs"], context, thing["inputs"])
        return provider_pb2.ReadResponse(
            id=request.id, properties=_struct(thing["outputs"]), inputs=_struct(thing["inputs"])
        )

    def Update(self, request: Any, context: Any) -> Any:
        olds, news, urn = _plain(request.olds), _plain(request.news), request.urn
        self._note("update", urn, id=request.id, olds=olds, news=news, timeout=request.timeout,
                   preview=request.preview, old_inputs=_plain(request.old_inputs),
                   ignore_changes=list(request.ignoreChanges))  # fmt: skip
        kept = {k: olds[k] for k in ("address", "serial", "connection") if k in olds}
        if request.preview:
            return provider_pb2.UpdateResponse(properties=_struct({**news, **kept, "revision": UNKNOWN}))
        fault = self._stumble("update", urn, context)
        thing = self._world.get(request.id)
        if thing is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"{request.id} is not there")
        outputs = {**news, **kept, "revision": thing["outputs"]["revision"] + 1}
        self._world.put(request.id, {**thing, "inputs": news, "outputs": outputs})
        self._stumble_after(fault, request.id, outputs, context)
        return provider_pb2.UpdateResponse(properties=_struct(outputs))

    def Delete(self, request: Any, context: Any) -> Any:
        self._note("delete", request.urn, id=request.id, timeout=request.timeout,
                   properties=_plain(request.properties), old_inputs=_plain(request.old_inputs))  # fmt: skip
        fault = self._stumble("delete", request.urn, context)
        self._world.drop(request.id)
        self._stumble_after(fault, request.id, {}, context)
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:
        arguments = _plain(request.args)
        self._note("invoke", request.tok, args=arguments)
        if "fail" in arguments:
            context.abort(grpc.StatusCode.UNKNOWN, f"the lookup failed: {arguments['fail']}")
        if "bad" in arguments:
            failure = provider_pb2.CheckFailure(property="bad", reason="may not be given")
            return provider_pb2.InvokeResponse(failures=[failure])
        answer = {"region": self._region, "found": arguments.get("name", "nothing")}
        return provider_pb2.InvokeResponse(**{"return": _struct(answer)})

    # -- what goes wrong

    def _stumble(self, op: str, urn: str, context: Any) -> dict[str, Any] | None:
        """Let a fault strike before the call has an effect; one that strikes afterwards is returned."""
        fault = self._world.fault(op, _name(urn))
        match fault and fault["do"]:
            case "fail":
                context.abort(grpc.StatusCode.UNKNOWN, f"{op} of {_name(urn)} was refused")
            case "die":
                self._die(f"the cloud fell down at {op} of {_name(urn)}")
            case "hang":
                self._world.began(op, _name(urn))
                threading.Event().wait()
            case "give up":
                self._world.began(op, _name(urn))
                self._cancelled.wait()
                context.abort(grpc.StatusCode.CANCELLED, f"{op} of {_name(urn)} was given up")
            case "finish":
                self._world.began(op, _name(urn))
                self._cancelled.wait()
        return fault

    def _stumble_after(
        self,
        fault: dict[str, Any] | None,
        id: str,
        outputs: dict[str, Any],
        context: Any,
        inputs: dict[str, Any] | None = None,
    ) -> None:
        match fault and fault["do"]:
            case "die after":
                self._die(f"the cloud fell down after {id}")
            case "partial":
                reasons = [f"{id} does not answer", f"{id} has no address"]
                detail = provider_pb2.ErrorResourceInitFailed(
                    id=id, properties=_struct(outputs), reasons=reasons,
                    inputs=None if inputs is None else _struct(inputs),
                )  # fmt: skip
                status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message="came up half")
                status.details.add().Pack(detail)
                trailer = (("grpc-status-details-bin", status.SerializeToString()),)
                context.abort_with_status(_Status(grpc.StatusCode.UNKNOWN, "came up half", trailer))

    def _die(self, last_words: str) -> NoReturn:
        print(last_words, file=sys.stderr, flush=True)
        os._exit(3)

    def _planned(self, inputs: dict[str, Any]) -> dict[str, Any]:
        planned = {**inputs, "address": UNKNOWN, "serial": UNKNOWN, "revision": 1}
        if "password" in inputs:
            planned["connection"] = UNKNOWN
        return planned

    def _note(self, op: str, urn: str, **what: Any) -> None:
        self._world.note({"op": op, "urn": urn, **what})


def main() -> None:
    """Serve until the engine ends this process."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
    cloud = Cloud(World(Path(os.environ["CLOUD_DIR"])))
    messages("provider_pb2_grpc").add_ResourceProviderServicer_to_server(cloud, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
