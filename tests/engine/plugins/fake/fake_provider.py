"""The provider `fake`: resources that are lines of a file, for tests and measurements.

fake:index:Item   name?, value?, size?, tags?, secret?, mint?, replace?, fail?
                  a change of `replace` makes a new one first, a change of `name` deletes the old one first
fake:index:Slow   seconds, value?; each operation takes that long, and ends early when it is cancelled
fake:index:Loose  as Item, but leaves the comparison to the engine (DIFF_UNKNOWN, no detailed diff)
fake:index:Pair   a component of two Items, with the method fake:index:Pair/describe
functions         fake:index:echo, fake:index:lookup(id), fake:index:reject, fake:index:fail

Environment: FAKE_WORLD (a folder, see world.py), FAKE_LOG (a file: one JSON line for each call),
FAKE_FAULTS (see faults.py), FAKE_SIGNAL (see signals.py), FAKE_PLAIN=1 (as an old provider: no Handshake,
takes no secrets, no previews), FAKE_IDEMPOTENT=1 (Create of what exists already, with the same properties,
gives that one: so an engine that never got the answer can ask again).
"""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent import futures
from pathlib import Path
from typing import Any

import component
import grpc
import light_proto
from faults import Faults, fill
from google.protobuf import any_pb2, empty_pb2
from signals import Signals
from values import UNKNOWN, from_struct, plain, secret, to_struct
from world import World

# Loaded by name, so a type checker cannot follow it.
pb: Any = light_proto.load("provider_pb2")
pb_grpc: Any = light_proto.load("provider_pb2_grpc")
status_pb: Any = light_proto.load("status_pb2")
plugin_pb: Any = light_proto.load("plugin_pb2")

VERSION = "1.2.3"
KNOWN_TYPES = frozenset({"fake:index:Item", "fake:index:Slow", "fake:index:Loose"})
MAX_MESSAGE_BYTES = 400 * 1024 * 1024


class Refused(Exception):
    """The call fails with this text."""


class Fake(pb_grpc.ResourceProviderServicer):  # type: ignore[misc]  # its base is loaded by name
    """The servicer. Every effect goes to the world before it is answered."""

    def __init__(self, environ: dict[str, str], engine_address: str) -> None:
        world = environ.get("FAKE_WORLD")
        self._world = World(Path(world) if world else None)
        self._faults = Faults(environ.get("FAKE_FAULTS", ""))
        self._plain = environ.get("FAKE_PLAIN") == "1"
        self._idempotent = environ.get("FAKE_IDEMPOTENT") == "1"
        self._cancelled = threading.Event()
        self._signals = Signals(environ.get("FAKE_SIGNAL", ""), self._cancelled)
        self._engine_address = engine_address
        log = environ.get("FAKE_LOG")
        self._log_fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644) if log else -1

    # -- the provider itself

    def Handshake(self, request: Any, context: Any) -> Any:
        if self._plain:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Handshake is not implemented")
        self._log("Handshake")
        return pb.ProviderHandshakeResponse(
            accept_secrets=True,
            accept_resources=True,
            accept_outputs=True,
            supports_autonaming_configuration=True,
        )

    def Attach(self, request: Any, context: Any) -> Any:
        self._log("Attach")
        self._engine_address = request.address
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb.PluginInfo(version=VERSION)

    def GetSchema(self, request: Any, context: Any) -> Any:
        return pb.GetSchemaResponse(schema=json.dumps({"name": "fake", "version": VERSION}))

    def CheckConfig(self, request: Any, context: Any) -> Any:
        self._log("CheckConfig", request)
        news = from_struct(request.news)
        if plain(news.get("invalid")):
            failure = pb.CheckFailure(property="invalid", reason="must not be given")
            return pb.CheckResponse(inputs=request.news, failures=[failure])
        return pb.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        self._log("DiffConfig", request)
        olds, news = from_struct(request.old_inputs), from_struct(request.news)
        changed = sorted(k for k in olds.keys() | news.keys() if olds.get(k) != news.get(k))
        replaces = ["account"] if "account" in changed else []
        return pb.DiffResponse(changes=_changes(changed), diffs=changed, replaces=replaces)

    def Configure(self, request: Any, context: Any) -> Any:
        self._log("Configure")
        if plain(from_struct(request.args)).get("unusable"):
            context.abort(grpc.StatusCode.UNKNOWN, "the configuration is unusable")
        if self._plain:
            return pb.ConfigureResponse()
        return pb.ConfigureResponse(
            acceptSecrets=True, acceptResources=True, acceptOutputs=True, supportsPreview=True
        )

    def Cancel(self, request: Any, context: Any) -> Any:
        self._log("Cancel")
        self._cancelled.set()
        return empty_pb2.Empty()

    # -- resources

    def Check(self, request: Any, context: Any) -> Any:
        self._log("Check", request)
        fault, _ = self._begin("check", request, context)
        if request.type not in KNOWN_TYPES:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"unknown resource type {request.type}")
        news = from_struct(request.news)
        failures = []
        if plain(news.get("fail")) == "check" or fault == "fail-after":
            failures.append(pb.CheckFailure(property="fail", reason="this input is refused"))
        if not isinstance(plain(news.get("size", 0)), int | float) and news["size"] != UNKNOWN:
            failures.append(pb.CheckFailure(property="size", reason="must be a number"))
        if "name" not in news:
            # Old resources keep their name, whatever the program calls them now.
            news["name"] = from_struct(request.olds).get("name", request.name)
        return pb.CheckResponse(inputs=to_struct(news), failures=failures)

    def Diff(self, request: Any, context: Any) -> Any:
        self._log("Diff", request, id=request.id)
        self._begin("diff", request, context)
        if request.type == "fake:index:Loose":
            return pb.DiffResponse(changes=pb.DiffResponse.DIFF_UNKNOWN)
        olds, news = from_struct(request.old_inputs), from_struct(request.news)
        ignored = set(request.ignoreChanges)
        changed = sorted(
            k for k in olds.keys() | news.keys() if olds.get(k) != news.get(k) and k not in ignored
        )
        replaces = [k for k in ("name", "replace") if k in changed]
        return pb.DiffResponse(
            changes=_changes(changed),
            diffs=changed,
            replaces=replaces,
            stables=["serial"] if changed and not replaces else [],
            deleteBeforeReplace="name" in changed,
            hasDetailedDiff=True,
            detailedDiff={k: _property_diff(k, olds, news, replaces) for k in changed},
        )

    def Create(self, request: Any, context: Any) -> Any:
        self._log("Create", request, preview=request.preview)
        inputs = from_struct(request.properties)
        if request.preview:
            return pb.CreateResponse(properties=to_struct(_outputs(inputs, UNKNOWN, UNKNOWN)))
        fault, wish = self._begin("create", request, context, inputs)
        resource = self._world.create(
            request.type, plain(inputs["name"]), plain(inputs), once=self._idempotent
        )
        outputs = to_struct(_outputs(inputs, resource["id"], resource["serial"]))
        self._finish("create", fault, wish, context, resource["id"], outputs)
        return pb.CreateResponse(id=resource["id"], properties=outputs)

    def Update(self, request: Any, context: Any) -> Any:
        self._log("Update", request, id=request.id, preview=request.preview)
        inputs = from_struct(request.news)
        serial = from_struct(request.olds).get("serial", UNKNOWN)
        outputs = to_struct(_outputs(inputs, request.id, serial))
        if not request.preview:
            fault, wish = self._begin("update", request, context, inputs)
            try:
                self._world.update(request.id, plain(inputs))
            except KeyError:
                context.abort(grpc.StatusCode.NOT_FOUND, f"there is no {request.id}")
            self._finish("update", fault, wish, context, request.id, outputs)
        return pb.UpdateResponse(properties=outputs)

    def Delete(self, request: Any, context: Any) -> Any:
        self._log("Delete", request, id=request.id)
        fault, wish = self._begin("delete", request, context, from_struct(request.properties))
        self._world.delete(request.id)
        self._finish("delete", fault, wish, context, request.id, None)
        return empty_pb2.Empty()

    def Read(self, request: Any, context: Any) -> Any:
        self._log("Read", request, id=request.id)
        fault, _ = self._begin("read", request, context)
        found = self._world.find(request.id)
        if found is None:
            return pb.ReadResponse()
        known = from_struct(request.inputs) or from_struct(request.properties)
        # What is unchanged keeps its form (its secrets); what drifted is told as the world has it.
        inputs = {k: known[k] if plain(known.get(k)) == v else v for k, v in found["props"].items()}
        outputs = to_struct(_outputs(inputs, found["id"], found["serial"]))
        if fault == "init":
            self._abort_init(context, found["id"], outputs, to_struct(inputs))
        return pb.ReadResponse(id=found["id"], inputs=to_struct(inputs), properties=outputs)

    # -- functions and components

    def Invoke(self, request: Any, context: Any) -> Any:
        self._log("Invoke", tok=request.tok)
        args = from_struct(request.args)
        match request.tok:
            case "fake:index:echo":
                return pb.InvokeResponse(**{"return": to_struct(args)})
            case "fake:index:lookup":
                found = self._world.find(plain(args.get("id")))
                if found is None:
                    return pb.InvokeResponse(
                        failures=[pb.CheckFailure(property="id", reason="there is none")]
                    )
                return pb.InvokeResponse(**{"return": to_struct(found)})
            case "fake:index:reject":
                return pb.InvokeResponse(failures=[pb.CheckFailure(property="value", reason="is refused")])
            case "fake:index:fail":
                context.abort(grpc.StatusCode.UNKNOWN, "the function failed")
            case _:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"unknown function {request.tok}")

    def Construct(self, request: Any, context: Any) -> Any:
        self._log("Construct", type=request.type, name=request.name)
        if request.type != "fake:index:Pair":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"unknown component type {request.type}")
        if plain(from_struct(request.inputs)).get("fail") == "construct":
            context.abort(grpc.StatusCode.UNKNOWN, "the component failed")
        return component.construct(request)

    def Call(self, request: Any, context: Any) -> Any:
        self._log("Call", tok=request.tok)
        if request.tok != "fake:index:Pair/describe":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"unknown method {request.tok}")
        return component.describe(request)

    # -- faults

    def _begin(
        self, method: str, request: Any, context: Any, inputs: dict[str, Any] | None = None
    ) -> tuple[str, str]:
        """Suffer what comes before the effect; returns the fault and what the input `fail` wishes."""
        fault = self._faults.of(method, request.name)
        wish = plain((inputs or {}).get("fail", ""))
        if fault == "die" or wish == f"die-{method}":
            os.write(2, f"fake: cannot go on\nfake: gave up in {method} of {request.name}\n".encode())
            os._exit(7)
        if fault == "fail" or wish == method:
            context.abort(grpc.StatusCode.UNKNOWN, f"{method} of {request.name} failed")
        if fault.startswith("hang:"):
            self._wait(float(fault.removeprefix("hang:")), context)
        if fault.startswith("deaf:"):
            time.sleep(float(fault.removeprefix("deaf:")))
        if request.type == "fake:index:Slow" and inputs is not None:
            self._wait(float(plain(inputs.get("seconds", 0))), context)
        self._signals.at(method, "before")
        return fault, wish

    def _finish(self, method: str, fault: str, wish: str, context: Any, id: str, outputs: Any) -> None:
        """Suffer what comes after the effect."""
        self._signals.at(method, "after")
        if fault == "lost-answer":
            os._exit(8)
        if fault.startswith("fill:"):
            fill(Path(fault.removeprefix("fill:")))
        if fault == "fail-after":
            context.abort(grpc.StatusCode.UNKNOWN, "it was done, but this answer says that it failed")
        if outputs is not None and (fault == "init" or wish == "init"):
            self._abort_init(context, id, outputs, None)

    def _abort_init(self, context: Any, id: str, outputs: Any, inputs: Any) -> None:
        failed = pb.ErrorResourceInitFailed(
            id=id, properties=outputs, reasons=["it did not come up", "nor will it"]
        )
        if inputs is not None:
            failed.inputs.CopyFrom(inputs)
        detail = any_pb2.Any()
        detail.Pack(failed)
        status = status_pb.Status(
            code=grpc.StatusCode.UNKNOWN.value[0], message="failed to initialise", details=[detail]
        )
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.UNKNOWN, "failed to initialise")

    def _wait(self, seconds: float, context: Any) -> None:
        if self._cancelled.wait(seconds):
            context.abort(grpc.StatusCode.CANCELLED, "the operation was cancelled")

    def _log(self, method: str, request: Any = None, **more: Any) -> None:
        if self._log_fd < 0:
            return
        entry: dict[str, Any] = {"method": method}
        if request is not None:
            entry["urn"] = request.urn
        entry |= {k: v for k, v in more.items() if v}
        os.write(self._log_fd, json.dumps(entry).encode() + b"\n")


def _outputs(inputs: dict[str, Any], id: str, serial: Any) -> dict[str, Any]:
    outputs = inputs | {"serial": serial}
    if plain(inputs.get("mint")):
        outputs["token"] = secret(UNKNOWN if id == UNKNOWN else f"token-of-{id}")
    return outputs


def _changes(changed: list[str]) -> Any:
    return pb.DiffResponse.DIFF_SOME if changed else pb.DiffResponse.DIFF_NONE


def _property_diff(key: str, olds: dict[str, Any], news: dict[str, Any], replaces: list[str]) -> Any:
    kind = "ADD" if key not in olds else "DELETE" if key not in news else "UPDATE"
    if key in replaces:
        kind += "_REPLACE"
    return pb.PropertyDiff(kind=pb.PropertyDiff.Kind.Value(kind), inputDiff=True)


def serve(args: list[str]) -> None:
    """Serve until the process is ended; the port is told on the first line of stdout."""
    environ = dict(os.environ)
    start = environ.get("FAKE_START", "")
    if start == "die":
        raise SystemExit("the fake provider does not start today")
    if start == "mute":
        time.sleep(3600)
    if start == "babble":
        os.write(1, b"hello\n")
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=32),
        options=[
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ],
    )
    pb_grpc.add_ResourceProviderServicer_to_server(Fake(environ, args[0] if args else ""), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    os.write(1, f"{port}\n".encode())
    try:
        server.wait_for_termination()
    except KeyboardInterrupt:
        # How the engine asks its providers to end. All that it did is written; taking down the
        # interpreter would only take time.
        os._exit(0)
