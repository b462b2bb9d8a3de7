from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.providers.started import FAKE, PROVIDER_URN, SEED, is_running, pid_of, until
from tidepool.engine.errors import EngineError
from tidepool.engine.project import Project
from tidepool.engine.providers.builtin import BuiltinProvider
from tidepool.engine.providers.contract import Provider
from tidepool.engine.providers.discovery import PluginRequest
from tidepool.engine.providers.loading import PluginLoader
from tidepool.engine.providers.plugin import PluginProvider


def loader(folder: Path, output_of: list[Any], **options: Any) -> PluginLoader:
    project = Project("p", folder / "Pulumi.yaml", "python", options, providers=(FAKE,))
    return PluginLoader(
        project=project,
        env={**os.environ, "FAKE_WORLD": str(folder / "world")},
        pulumi_home=folder / "home",
        python=Path(sys.executable),
        log=output_of.append,
        stack_outputs=lambda _: {},
        resource_state=lambda _: None,
        config={"p:key": "value"},
    )


def test_providers_by_name(tmp_path: Path) -> None:
    async def run() -> tuple[Provider, Any]:
        plugins = loader(tmp_path, [])
        builtin = await plugins.load(PluginRequest("pulumi"))
        fake = await plugins.load(PluginRequest("fake"))
        await fake.configure(PROVIDER_URN, "1", {})
        checked = await fake.check("urn:pulumi:dev::p::fake:index:Item::a", {}, {}, SEED, False)
        await fake.close()
        with pytest.raises(EngineError, match="no resource plugin 'pulumi-resource-none'"):
            await plugins.load(PluginRequest("none"))
        await plugins.close()
        return builtin, checked.inputs

    builtin, inputs = asyncio.run(run())
    assert isinstance(builtin, BuiltinProvider)
    assert inputs == {"name": "a"}


def test_a_plugin_that_was_started_ahead_is_the_one_that_is_loaded(tmp_path: Path) -> None:
    """And one that nobody loads is ended; one that cannot be started is told of when it is loaded."""

    async def run() -> tuple[int, int, bool]:
        plugins = loader(tmp_path, [])
        await plugins.start_ahead(
            [
                PluginRequest("fake"),
                PluginRequest("fake"),
                PluginRequest("none"),
                PluginRequest("fake", "9.9.9"),
            ]
        )
        ahead = await plugins.load(PluginRequest("fake"))
        another = await plugins.load(PluginRequest("fake"))
        with pytest.raises(EngineError, match="no resource plugin 'pulumi-resource-none'"):
            await plugins.load(PluginRequest("none"))
        await plugins.close()
        assert isinstance(ahead, PluginProvider)
        assert isinstance(another, PluginProvider)
        pids = pid_of(ahead), pid_of(another)
        await asyncio.gather(ahead.close(), another.close())
        return *pids, ahead is another

    first, second, same = asyncio.run(run())
    assert first != second
    assert not same


def test_a_plugin_runs_in_the_programs_folder_with_its_options(tmp_path: Path) -> None:
    """And what it is found by is told, once."""
    script = tmp_path / "bin/pulumi-resource-odd"
    script.parent.mkdir()
    script.write_text(
        f"#!/bin/sh\npwd > {tmp_path}/told; env | sort >> {tmp_path}/told; mv {tmp_path}/told {tmp_path}/env"
    )
    script.chmod(0o755)
    output_of: list[Any] = []
    told: list[str] = []

    async def run() -> None:
        plugins = loader(tmp_path, output_of, virtualenv="", typed=True)
        plugins.env = {**plugins.env, "PATH": f"{script.parent}:{os.environ['PATH']}"}
        for _ in range(2):
            with pytest.raises(EngineError, match="ended with exit code 0"):
                await plugins.load(PluginRequest("odd"))
        await until((tmp_path / "env").exists)
        told.extend((tmp_path / "env").read_text().splitlines())
        # A configuration that is longer than any variable is in none, and the plugin starts.
        plugins.config = {"p:key": "x" * 128 * 1024}
        with pytest.raises(EngineError, match="ended with exit code 0"):
            await plugins.load(PluginRequest("odd", "1.0.0"))
        await plugins.close()

    asyncio.run(run())
    assert told[0] == str(tmp_path)
    assert {"PULUMI_PROJECT=p", "PULUMI_RUNTIME_TYPED=true", 'PULUMI_CONFIG={"p:key": "value"}'} <= set(told)
    assert [m.message for m in output_of] == [f"using pulumi-resource-odd from $PATH at {script}"]


def test_a_plugin_on_path_of_another_version_than_its_package_is_told_of_with_both(tmp_path: Path) -> None:
    script = tmp_path / "bin/pulumi-resource-odd"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE.path}/__main__.py "$@"\n')
    script.chmod(0o755)
    output_of: list[Any] = []

    async def run(*versions: str) -> None:
        plugins = loader(tmp_path, output_of)
        plugins.env = {**plugins.env, "PATH": f"{script.parent}:{os.environ['PATH']}"}
        for version in versions:
            await (await plugins.load(PluginRequest("odd", version))).close()
        await plugins.close()

    asyncio.run(run("", "v1.2.3", "2.6.1", "2.6.1"))
    found, other = (message.message for message in output_of)
    assert found.startswith("using pulumi-resource-odd from $PATH")
    assert other.startswith(
        f"{script} is version 1.2.3, and the program's package asks for 2.6.1: put that plugin"
    )
    assert "`pulumi plugin install resource odd 2.6.1`" in other


def test_one_that_is_not_loaded_is_ended_though_its_version_is_waited_for(tmp_path: Path) -> None:
    script = tmp_path / "bin/pulumi-resource-odd"
    script.parent.mkdir()
    # It tells a port and answers nothing.
    script.write_text(
        f"#!{sys.executable}\nimport os, socket, time\nlistens = socket.create_server(('127.0.0.1', 0))\n"
        f"open('{tmp_path}/pid.new', 'w').write(str(os.getpid()))\nprint(listens.getsockname()[1], flush=True)\n"
        f"listens.accept()\nos.rename('{tmp_path}/pid.new', '{tmp_path}/pid')\ntime.sleep(600)\n"
    )
    script.chmod(0o755)

    async def run() -> None:
        plugins = loader(tmp_path, [])
        plugins.env = {**plugins.env, "PATH": f"{script.parent}:{os.environ['PATH']}"}
        await plugins.start_ahead([PluginRequest("odd", "1.0.0")])
        await until((tmp_path / "pid").exists)
        await plugins.close()

    asyncio.run(run())
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_the_programs_interpreter(tmp_path: Path) -> None:
    assert loader(tmp_path, []).program_python == Path(sys.executable)
    venv = tmp_path / "env"
    with pytest.raises(EngineError, match="virtualenv is 'env'"):
        _ = loader(tmp_path, [], virtualenv="env").program_python
    # The engine's own environment under another name is still its own.
    venv.symlink_to(Path(sys.executable).parent.parent)
    assert loader(tmp_path, [], virtualenv="env").program_python == Path(sys.executable)
    venv.unlink()
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").touch(0o755)
    assert loader(tmp_path, [], virtualenv="env").program_python == venv / "bin/python"
