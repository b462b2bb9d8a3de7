"""The SDK of a plugin, which programs of Pulumi's tests import and the CLI generates."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import grpc
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from tests.engine.scenarios.sandbox import Actor

from .copy import Copy, NotHere
from .packages import install, provide

#: What generated SDKs import, besides ``pulumi`` and what that brings.
_IMPORTED: Final = "parver"
_DEADLINE_S: Final = 60.0


def generate(words: str, copy: Copy, cli: Actor | None, built: Path) -> None:
    """Put an SDK on the run's path: of the plugin or schema that ``words`` begin with; the rest are its parameters.

    Raises:
        NotHere: when there is no CLI, or the package that generated SDKs need cannot be installed.
    """
    if cli is None:
        raise NotHere("needs `pulumi` on PATH, which generates the SDK that the program imports")
    path, *parameters = shlex.split(words)
    source = copy.place(path)
    env = copy.environment(cli, {})
    out = Path(tempfile.mkdtemp(prefix="sdk-", dir=copy.scratch))
    if source.is_dir():
        # The CLI would make an environment for the plugin before it asks it for its schema.
        schema = out / "schema.json"
        schema.write_text(_schema(source, parameters, env))
        source = schema
    _run(
        [*cli.argv, "package", "gen-sdk", str(source), "--language", "python", "--local", "--out", str(out)],
        env,
    )
    # With its metadata, which it reads its version from.
    install(["--no-deps", "--no-build-isolation", str(out / "python")], out / "installed")
    copy.packages.append(out / "installed")
    provide([_IMPORTED], copy, built)


def _schema(plugin: Path, parameters: Sequence[str], env: dict[str, str]) -> str:
    # It wants the address of an engine, which it does not call for this.
    command = [sys.executable, str(plugin), "127.0.0.1:1"]
    with subprocess.Popen(command, env=env, cwd=plugin, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                provider = provider_pb2_grpc.ResourceProviderStub(channel)
                request = provider_pb2.GetSchemaRequest()
                if parameters:
                    args = provider_pb2.ParameterizeRequest.ParametersArgs(args=parameters)
                    answer = provider.Parameterize(
                        provider_pb2.ParameterizeRequest(args=args), timeout=_DEADLINE_S
                    )
                    request.subpackage_name = answer.name
                    request.subpackage_version = answer.version
                schema: str = provider.GetSchema(request, timeout=_DEADLINE_S).schema
                return schema
        finally:
            process.kill()


def _run(command: list[str], env: dict[str, str]) -> None:
    done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NotHere(f"{shlex.join(command[:4])}: {done.stderr.strip() or done.stdout.strip()}")
