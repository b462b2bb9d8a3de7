from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from tidepool.engine import rpc
from tidepool.engine.providers.loading import EngineServer

messages = rpc.messages("engine_pb2")


class Served:
    def __init__(self) -> None:
        self.logged: list[Any] = []
        self.server = EngineServer(self.logged.append)
        self.channel = grpc.insecure_channel(self.server.address)
        self.engine = rpc.messages("engine_pb2_grpc").EngineStub(self.channel)


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.channel.close()
    served.server.close()


def test_messages_are_passed_on(served: Served) -> None:
    served.engine.Log(messages.LogRequest(severity=messages.WARNING, message="mind", urn="urn:a", streamId=3))
    (output_of,) = served.logged
    assert (output_of.severity, output_of.message, output_of.urn, output_of.streamId) == (
        messages.WARNING,
        "mind",
        "urn:a",
        3,
    )


def test_the_root_resource_is_remembered(served: Served) -> None:
    assert served.engine.GetRootResource(messages.GetRootResourceRequest()).urn == ""
    served.engine.SetRootResource(messages.SetRootResourceRequest(urn="urn:root"))
    assert served.engine.GetRootResource(messages.GetRootResourceRequest()).urn == "urn:root"


def test_the_version_is_that_of_the_cli_it_follows(served: Served) -> None:
    served.engine.RequirePulumiVersion(messages.RequirePulumiVersionRequest(pulumi_version_range=">=3.100.0"))
    with pytest.raises(grpc.RpcError) as refused:
        served.engine.RequirePulumiVersion(
            messages.RequirePulumiVersionRequest(pulumi_version_range=">=4.0.0")
        )
    assert (
        refused.value.details() == 'Pulumi CLI version 3.260.0 does not satisfy the version range ">=4.0.0"'
    )
    with pytest.raises(grpc.RpcError) as refused:
        served.engine.RequirePulumiVersion(messages.RequirePulumiVersionRequest(pulumi_version_range="new"))
    assert str(refused.value.details()).startswith('parsing CLI version range "new": ')


def test_debuggers_are_refused(served: Served) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        served.engine.StartDebugging(messages.StartDebuggingRequest())
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_nothing_listens_before_its_address_is_asked_for() -> None:
    server = EngineServer(lambda _: None)
    server.close()  # closing what was never started
    address = server.address
    assert server.address == address
    server.close()
