"""The language host, over gRPC and in this process: a program of its own is run against a monitor that only writes down."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, resource_pb2, resource_pb2_grpc

from tidepool.engine.language_host.service import LanguageHost

ROOT = Path(__file__).parents[3]

#: In the place of the SDK's script, which takes the same arguments and gives the same exit codes.
EXECUTOR = f"""
import argparse, json, os, sys
sys.path.insert(0, {str(ROOT)!r})
from tidepool.engine.program import host

parser = argparse.ArgumentParser()
for name in ("monitor", "engine", "project", "root_directory", "stack", "pwd", "dry_run", "parallel", "organization"):
    parser.add_argument(f"--{{name}}")
parser.add_argument("program")
given = vars(parser.parse_args())
with open("given.json", "w") as file:
    json.dump(given, file)
os.chdir(given.pop("pwd"))
given["dry_run"] = given["dry_run"] == "true"
given["parallel"] = int(given["parallel"])
config = json.loads(os.environ["PULUMI_CONFIG"])
secrets = json.loads(os.environ["PULUMI_CONFIG_SECRET_KEYS"])
sys.exit(host.run(given.pop("program"), settings=given, config=config, secret_keys=secrets))
"""


class Monitor(resource_pb2_grpc.ResourceMonitorServicer):
    """Takes all, and remembers it."""

    def __init__(self) -> None:
        self.registered: list[str] = []
        self.outputs: dict[str, Any] = {}

    def SupportsFeature(self, request: Any, context: Any) -> Any:  # noqa: N802
        return resource_pb2.SupportsFeatureResponse(hasSupport=False)

    def RegisterResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.registered.append(f"{request.type} {request.name}")
        return resource_pb2.RegisterResourceResponse(urn=f"urn:{request.name}")

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.outputs.update(dict(request.outputs))
        return Empty()

    def SignalAndWaitForShutdown(self, request: Any, context: Any) -> Any:  # noqa: N802
        return Empty()


class World:
    """A host with its client, a monitor, and a project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.monitor = Monitor()
        self.executor = folder / "executor.py"
        self.executor.write_text(EXECUTOR)
        self.project = folder / "project"
        self.project.mkdir()
        self.host = LanguageHost(self.executor, {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"})
        self.servers = [grpc.server(ThreadPoolExecutor(8)) for _ in range(2)]
        language_pb2_grpc.add_LanguageRuntimeServicer_to_server(self.host, self.servers[0])
        resource_pb2_grpc.add_ResourceMonitorServicer_to_server(self.monitor, self.servers[1])
        port, self.monitor_port = (server.add_insecure_port("127.0.0.1:0") for server in self.servers)
        for server in self.servers:
            server.start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.stub: Any = language_pb2_grpc.LanguageRuntimeStub(self.channel)

    def end(self) -> None:
        self.host.children.end_all()
        self.channel.close()
        for server in self.servers:
            server.stop(None).wait()

    def info(self, entry: str = ".", **options: str) -> language_pb2.ProgramInfo:
        info = language_pb2.ProgramInfo(
            root_directory=str(self.project), program_directory=str(self.project), entry_point=entry
        )
        info.options.update(options)
        return info

    def request(self, text: str = "", entry: str = ".", **options: str) -> language_pb2.RunRequest:
        if text:
            (self.project / "__main__.py").write_text(text)
        return language_pb2.RunRequest(
            project="shop",
            stack="dev",
            pwd=str(self.project),
            config={"shop:size": "3", "shop:key": "s3cret"},
            configSecretKeys=["shop:key"],
            dryRun=True,
            parallel=4,
            organization="us",
            monitor_address=f"127.0.0.1:{self.monitor_port}",
            info=self.info(entry, **options),
        )

    def refused(self, call: Callable[[], Any]) -> str:
        with pytest.raises(grpc.RpcError) as caught:
            call()
        return str(caught.value.details())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.end()


PROGRAM = """
import pulumi
from neighbour import NAME

config = pulumi.Config("shop")
pulumi.ComponentResource("shop:Till", NAME)
pulumi.export("size", config.require_int("size"))
pulumi.export("secret", config.is_secret if False else pulumi.runtime.is_config_secret("shop:key"))
pulumi.export("about", [pulumi.get_project(), pulumi.get_stack(), pulumi.get_organization(), pulumi.runtime.is_dry_run()])
pulumi.export("root", pulumi.get_root_directory())
"""


def test_a_program_is_run_with_all_that_it_may_ask_for(world: World) -> None:
    (world.project / "neighbour.py").write_text("NAME = 'till'\n")
    assert world.stub.Run(world.request(PROGRAM)) == language_pb2.RunResponse()
    assert world.monitor.registered == ["pulumi:pulumi:Stack shop-dev", "shop:Till till"]
    outputs = world.monitor.outputs
    assert (outputs["size"], outputs["secret"], outputs["root"]) == (3, True, str(world.project))
    assert list(outputs["about"]) == ["shop", "dev", "us", True]
    given = json.loads((world.project / "given.json").read_text())
    assert given["parallel"] == "4"
    assert given["program"] == "."
    assert "s3cret" not in str(given)


def test_how_a_program_ends_is_told(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    cases = {
        "print('said', flush=True)": language_pb2.RunResponse(),
        "raise SystemExit(3)": language_pb2.RunResponse(error="program exited with non-zero exit code: 3"),
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": language_pb2.RunResponse(
            error="program exited with non-zero exit code: -1"
        ),
        # The SDK told the engine why.
        "1 / 0": language_pb2.RunResponse(bail=True),
    }
    for text, response in cases.items():
        assert world.stub.Run(world.request(text)) == response, text
    assert "said\n" in capfd.readouterr().out


def test_a_program_may_be_another_file(world: World) -> None:
    (world.project / "other.py").write_text("raise SystemExit(5)")
    assert world.stub.Run(world.request(entry="other.py")).error.endswith("exit code: 5")


def test_what_is_wrong_with_an_interpreter_is_told_with_the_remedy(world: World) -> None:
    said = world.refused(lambda: world.stub.Run(world.request("", virtualenv="venv")))
    assert f"'{world.project}/Pulumi.yaml': runtime.options.virtualenv is 'venv', but" in said
    assert f"python3 -m venv {world.project}/venv" in said
    said = world.refused(lambda: world.stub.Run(world.request("", toolchain="conda")))
    assert "unknown 'conda'; allowed are pip, uv, poetry" in said
    said = world.refused(lambda: world.stub.Run(world.request("", typechecker="pytype")))
    assert "unknown 'pytype'; allowed are mypy, pyright" in said
    asked = language_pb2.GetRequiredPackagesRequest(info=world.info(virtualenv="venv"))
    assert world.stub.GetRequiredPackages(asked) == language_pb2.GetRequiredPackagesResponse()
    asked_more = language_pb2.GetProgramDependenciesRequest(info=world.info(virtualenv="venv"))
    said = world.refused(lambda: world.stub.GetProgramDependencies(asked_more))
    assert "is not a virtual environment" in said


def test_a_virtual_environment_is_used(world: World) -> None:
    # One whose Python says that it was it.
    programs = world.project / "venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").write_text(
        f'#!/bin/sh\necho "$VIRTUAL_ENV $PATH" >"$VIRTUAL_ENV/used"\nexec {sys.executable} "$@"\n'
    )
    (programs / "python").chmod(0o755)
    assert not world.stub.Run(world.request("pass", virtualenv="venv")).error
    venv, path = (world.project / "venv" / "used").read_text().split(maxsplit=1)
    assert venv == f"{world.project}/venv"
    assert path.startswith(f"{venv}/bin:")


def test_a_type_checker_comes_before_the_program(world: World) -> None:
    text = "open('ran', 'w')\nsize: int = 'three'\n"
    said = world.refused(lambda: world.stub.Run(world.request(text, typechecker="mypy")))
    assert said.startswith("mypy failed: exit status 1")
    assert "Incompatible types" in said
    assert not (world.project / "ran").exists()


WAITS = """
import signal, sys, time
def heard(*_):
    open("heard", "w").close()
    sys.exit(7)
signal.signal(signal.SIGINT, heard)
open("ready", "w").close()
time.sleep(60)
"""


def _exists(file: Path) -> None:
    deadline = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < deadline, file
        time.sleep(0.01)


def test_a_program_is_interrupted_when_the_engine_cancels(world: World) -> None:
    running = world.stub.Run.future(world.request(WAITS))
    _exists(world.project / "ready")
    world.stub.Cancel(Empty())
    assert running.result(30).error == "program exited with non-zero exit code: 7"
    assert (world.project / "heard").exists()
    assert world.refused(lambda: world.stub.Run(world.request())) == "cancelled"


def test_a_program_is_interrupted_when_nobody_waits_for_it_any_more(world: World) -> None:
    running = world.stub.Run.future(world.request(WAITS))
    _exists(world.project / "ready")
    running.cancel()
    _exists(world.project / "heard")


PLUGIN = (
    "import os, sys\nprint('4711', flush=True)\nprint(sys.argv[1], os.environ['SAYS'], file=sys.stderr)\n"
)


def _plugin(world: World, text: str, **more: Any) -> language_pb2.RunPluginRequest:
    (world.project / "PulumiPlugin.yaml").write_text("runtime: python\n")
    (world.project / "__main__.py").write_text(text)
    return language_pb2.RunPluginRequest(
        pwd=str(world.folder), info=world.info(), args=["127.0.0.1:1"], env=["SAYS=so=it"], **more
    )


def test_a_plugin_is_run_and_heard_to_its_end(world: World) -> None:
    answers = list(world.stub.RunPlugin(_plugin(world, PLUGIN + "sys.exit(4)")))
    assert b"".join(each.stdout for each in answers) == b"4711\n"
    assert b"".join(each.stderr for each in answers) == b"127.0.0.1:1 so=it\n"
    assert answers[-1].exitcode == 4
    assert not any(each.exitcode for each in world.stub.RunPlugin(_plugin(world, PLUGIN)))


def test_a_plugin_ends_when_the_cli_wants_no_more_of_it(world: World) -> None:
    text = WAITS.replace("open(", f"open('{world.project}/' + ").replace(
        "time.sleep", "print('4711', flush=True); time.sleep"
    )
    stream = world.stub.RunPlugin(_plugin(world, text))
    assert next(stream).stdout == b"4711\n"
    stream.cancel()
    _exists(world.project / "heard")


def test_what_cannot_be_run_is_told(world: World) -> None:
    asked = _plugin(world, "", kind="analyzer")
    assert "runs no policy packs" in world.refused(lambda: list(world.stub.RunPlugin(asked)))
    asked = _plugin(world, "")
    (world.project / "__main__.py").unlink()
    assert "is not runnable" in world.refused(lambda: list(world.stub.RunPlugin(asked)))
    debugged = world.request("pass")
    debugged.attach_debugger = True
    assert "attaches no debugger" in world.refused(lambda: world.stub.Run(debugged))
    with pytest.raises(grpc.RpcError) as caught:
        world.stub.GeneratePackage(language_pb2.GeneratePackageRequest())
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    request = language_pb2.InstallDependenciesRequest(info=world.info())
    assert "installs no packages" in world.refused(lambda: list(world.stub.InstallDependencies(request)))


def test_what_the_interpreter_has_is_told(world: World) -> None:
    about = world.stub.About(language_pb2.AboutRequest(info=world.info(toolchain="pip")))
    assert about.version == ".".join(map(str, sys.version_info[:3]))
    assert about.metadata == {"toolchain": "pip"}
    asked = language_pb2.GetProgramDependenciesRequest(info=world.info(), transitiveDependencies=True)
    everything = {each.name for each in world.stub.GetProgramDependencies(asked).dependencies}
    asked.transitiveDependencies = False
    assert {"pulumi", "grpcio"} <= everything
    assert "grpcio" not in {each.name for each in world.stub.GetProgramDependencies(asked).dependencies}
    plugins = world.stub.GetRequiredPackages(language_pb2.GetRequiredPackagesRequest(info=world.info()))
    assert all(each.kind == "resource" for each in plugins.packages)
    assert world.stub.GetPluginInfo(Empty()).version
