"""A provider's process that serves one operation after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import engine_pb2_grpc, plugin_pb2, provider_pb2, provider_pb2_grpc

from tests.provider.stack import CHECKOUT
from tidepool.provider.provider import EngineLog

_MACHINE = {"kind": "local", "stack": "dev", "machine": "cpu-1"}


class _Engine(engine_pb2_grpc.EngineServicer):
    def __init__(self) -> None:
        self.output_of: list[str] = []

    def Log(self, request: Any, context: Any) -> empty_pb2.Empty:  # noqa: N802 - the protocol's name
        self.output_of.append(request.message)
        return empty_pb2.Empty()


@contextmanager
def _engine() -> Iterator[tuple[_Engine, str]]:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    engine = _Engine()
    engine_pb2_grpc.add_EngineServicer_to_server(engine, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield engine, f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_messages_go_to_the_engine_that_attached_last() -> None:
    messages = EngineLog("")
    messages.info("urn", "to nobody")
    with _engine() as (first, address):
        messages.attach(address)
        messages.info("urn", "to the first")
        with _engine() as (second, another):
            messages.attach(another)
            messages.warn("urn", "to the second")
    messages.status("urn", "to one that has ended")
    assert (first.output_of, second.output_of) == (["to the first"], ["to the second"])


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """As `tidepool.engine.warm` starts it: without an engine's address."""
    process = subprocess.Popen(
        [sys.executable, str(CHECKOUT / "provider")],
        stdout=subprocess.PIPE,
        env={**os.environ, "TIDEPOOL_DATA": str(tmp_path)},
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def _stub(port: int) -> Iterator[Any]:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield provider_pb2_grpc.ResourceProviderStub(channel)


def _creation(timeout_s: float) -> provider_pb2.CreateRequest:
    """Of a node that never comes."""
    inputs = Struct()
    inputs.update(
        {"controller": {**_MACHINE, "machine": "ctl"}, "node": "cpu-1", "machine": _MACHINE, "slots": "x"}
    )
    return provider_pb2.CreateRequest(
        urn="urn:pulumi:dev::cluster::tidepool:slurm:Node::cpu-1", properties=inputs, timeout=timeout_s
    )


def test_one_operation_after_the_other_is_served(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    port = int(process.stdout.readline())
    for _ in range(2):
        with _engine() as (_, address), _stub(port) as stub:
            stub.Attach(plugin_pb2.PluginAttach(address=address), timeout=20)
            stub.Configure(provider_pb2.ConfigureRequest(acceptSecrets=True), timeout=20)
            with pytest.raises(grpc.RpcError, match="node cpu-1 is not up after"):
                stub.Create(_creation(0.1), timeout=20)
    assert process.poll() is None


def test_what_it_is_left_at_work_with_does_not_reach_into_the_next_operation(
    process: subprocess.Popen[str],
) -> None:
    assert process.stdout is not None
    with _engine() as (_, address), _stub(int(process.stdout.readline())) as stub:
        stub.Attach(plugin_pb2.PluginAttach(address=address), timeout=20)
        under_way = stub.Create.future(_creation(600))
        # It is in its thread by the time that another, which came later, was answered.
        with pytest.raises(grpc.RpcError, match="node cpu-1 is not up after"):
            stub.Create(_creation(0.1), timeout=20)
        assert process.poll() is None
        under_way.cancel()
        assert process.wait(20) == 0
