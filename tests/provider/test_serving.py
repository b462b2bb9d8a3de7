"""The provider's process: it starts fast, and its errors are for people."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from tests.provider.stack import CHECKOUT
from tidepool.clients.slurm import Refused
from tidepool.cluster.failures import InsufficientCapacity, Transient, unmarked
from tidepool.infrastructures.local.kernel import BadSpec, TimedOut
from tidepool.provider.serving import error_text
from tidepool.resources.kind import Refusal

_URN = "urn:pulumi:dev::cluster::{}::it"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def provider(data: Path) -> Iterator[Any]:
    """A stub of the provider, run as the engine runs it."""
    process = subprocess.Popen(
        [sys.executable, str(CHECKOUT / "provider"), "127.0.0.1:1"],
        stdout=subprocess.PIPE,
        env={**os.environ, "TIDEPOOL_DATA": str(data)},
        text=True,
    )
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield provider_pb2_grpc.ResourceProviderStub(channel)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _struct(**values: Any) -> Any:
    from google.protobuf.struct_pb2 import Struct

    made = Struct()
    made.update(values)
    return made


def _error_of(call: Any, request: Any) -> Any:
    with pytest.raises(grpc.RpcError) as raised:
        call(request, timeout=20)
    error: Any = raised.value
    assert "Traceback" not in str(error.details())
    assert "File " not in str(error.details())
    return error


def test_it_takes_secrets_and_previews(provider: Any) -> None:
    answer = provider.Configure(provider_pb2.ConfigureRequest(acceptSecrets=True), timeout=20)
    assert (answer.acceptSecrets, answer.supportsPreview) == (True, True)


def test_a_refusal_is_its_text_alone(provider: Any) -> None:
    request = provider_pb2.CheckRequest(urn=_URN.format("tidepool:local:Moon"))
    said = _error_of(provider.Check, request).details()
    assert said == (
        "the provider tidepool has no resources of type tidepool:local:Moon; "
        "`tidepool.resources` has those that it has"
    )


def test_a_fault_of_ours_is_told_without_its_traceback_which_is_kept(provider: Any, data: Path) -> None:
    state = _struct(recipe="/images/x", playbooks="/playbooks", digest="a" * 64)
    (data / "images" / ("a" * 64)).mkdir(parents=True)
    (data / "images" / ("a" * 64) / "manifest.json").write_text("{")
    request = provider_pb2.ReadRequest(urn=_URN.format("tidepool:image:Image"), id="a" * 64, properties=state)
    said = str(_error_of(provider.Read, request).details())
    log = data / "provider-faults.log"
    assert said.startswith("a fault in the provider tidepool: JSONDecodeError: ")
    assert said.endswith(f"; {log} says where")
    assert "store.py" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_what_was_made_although_it_failed_is_told_with_the_error(provider: Any) -> None:
    machine = {"kind": "local", "stack": "dev", "machine": "cpu-1"}
    inputs = _struct(controller={**machine, "machine": "ctl"}, node="cpu-1", machine=machine, slots="cpu")
    request = provider_pb2.CreateRequest(
        urn=_URN.format("tidepool:slurm:Node"), properties=inputs, timeout=0.5
    )
    error = _error_of(provider.Create, request)
    assert "node cpu-1 is not up after" in str(error.details())
    metadata = {item.key: item.value for item in error.trailing_metadata()}
    status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    failed = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(failed)
    assert (failed.id, list(failed.reasons)) == ("cpu-1", [error.details()])
    assert unmarked(str(error.details()))[1] == "boot"
    assert failed.properties["node"] == "cpu-1"


def test_what_was_written_for_people_is_told_as_it_is(tmp_path: Path) -> None:
    refused = Refused("Slurm refused: no", words="no", where="here", remedy="ask again")
    for error in (Refusal("it is so"), refused):
        assert error_text(error, tmp_path / "faults") == str(error)
    assert not (tmp_path / "faults").exists()


def test_of_which_kind_a_failure_is_goes_with_it(tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    assert unmarked(error_text(BadSpec("a\nb"), faults)) == ("a\nb", "permanent")
    assert unmarked(error_text(TimedOut("it does not boot"), faults)) == ("it does not boot", "boot")
    assert unmarked(error_text(InsufficientCapacity("sold out"), faults)) == ("sold out", "capacity")
    assert unmarked(error_text(Transient("later"), faults)) == ("later", "transient")
    assert not faults.exists()


def test_what_only_some_need_is_not_imported_at_the_start() -> None:
    code = (
        "import sys, tidepool.provider.serving\n"
        "heavy = {'paramiko', 'cryptography', 'pydantic', 'tidepool.images.build', 'tidepool.engine', 'rich'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=CHECKOUT, capture_output=True, text=True
    )
    assert done.stdout.split() == []
