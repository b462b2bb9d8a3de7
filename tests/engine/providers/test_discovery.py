from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tidepool.engine.errors import EngineError, NotSupportedError
from tidepool.engine.project import PluginPath
from tidepool.engine.providers.discovery import PluginCommand, PluginMissingError, PluginRequest, find


class Machine:
    """A home, a PATH and project plugins."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.bin = root / "bin"
        self.bin.mkdir()
        self.environ = {"PATH": str(self.bin)}
        self.project: list[PluginPath] = []

    def cached(self, name: str, version: str, executable: bool = True) -> Path:
        folder = self.home / "plugins" / f"resource-{name}-v{version}"
        folder.mkdir(parents=True)
        if executable:
            self.executable(folder, name)
        return folder

    def executable(self, folder: Path, name: str) -> Path:
        path = folder / f"pulumi-resource-{name}"
        path.touch(0o755)
        return path

    def find(
        self, name: str, version: str = "", url: str = "", python: str = sys.executable
    ) -> PluginCommand:
        return find(
            PluginRequest(name, version, url),
            project_plugins=self.project,
            environ=self.environ,
            pulumi_home=self.home,
            python=python,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_projects_own_comes_first_then_path_then_the_cache(machine: Machine, tmp_path: Path) -> None:
    cached = machine.cached("aws", "1.0.0")
    assert machine.find("aws").folder == cached
    ambient = machine.executable(machine.bin, "aws")
    found = machine.find("aws")
    assert found.argv == (str(ambient),)
    assert found.notice == f"using pulumi-resource-aws from $PATH at {ambient}"
    own = tmp_path / "own"
    own.mkdir()
    executable = machine.executable(own, "aws")
    machine.project = [PluginPath("aws", own)]
    assert machine.find("aws") == PluginCommand((str(executable),), own)


def test_what_pip_installed_beside_the_interpreter_comes_before_path(
    machine: Machine, tmp_path: Path
) -> None:
    machine.executable(machine.bin, "aws")
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    beside = machine.executable(python.parent, "aws")
    found = machine.find("aws", python=str(python))
    assert (found.argv, found.folder, found.notice) == ((str(beside),), python.parent, "")
    # It tells no version, so it is not taken where one is asked for.
    assert machine.find("aws", "1.0.0", python=str(python)).argv != found.argv


@pytest.mark.parametrize("word", ["1", "true", "True"])
def test_path_can_be_ignored(machine: Machine, word: str) -> None:
    machine.executable(machine.bin, "aws")
    machine.environ["PULUMI_IGNORE_AMBIENT_PLUGINS"] = word
    with pytest.raises(PluginMissingError, match="PATH") as refused:
        machine.find("aws")
    assert str(machine.bin) not in str(refused.value)


def test_a_version_that_is_asked_for_must_be_there(machine: Machine) -> None:
    for version in ("1.0.0", "1.1.0", "2.0.0"):
        machine.cached("aws", version)
    assert machine.find("aws", "1.1.0").folder.name == "resource-aws-v1.1.0"
    assert machine.find("aws", "v1.1.0").folder.name == "resource-aws-v1.1.0"
    with pytest.raises(
        PluginMissingError, match=r"there are only resource-aws-v1\.0\.0, resource-aws-v1\.1\.0"
    ):
        machine.find("aws", "1.2.0")


def test_without_a_version_it_is_the_newest_release(machine: Machine) -> None:
    for version in ("1.9.0", "1.10.0", "2.0.0-beta.1"):
        machine.cached("aws", version)
    assert machine.find("aws").folder.name == "resource-aws-v1.10.0"


def test_a_prerelease_will_do_where_there_is_no_release(machine: Machine) -> None:
    for version in ("2.0.0-beta.1", "2.0.0-beta.2"):
        machine.cached("aws", version)
    assert machine.find("aws").folder.name == "resource-aws-v2.0.0-beta.2"


def test_plugins_that_are_not_wholly_installed_do_not_count(machine: Machine) -> None:
    folder = machine.cached("aws", "1.0.0")
    folder.with_name(f"{folder.name}.partial").touch()
    machine.cached("aws", "1.1.0.tmp123")
    machine.cached("awsx", "1.1.0")
    machine.cached("aws", "of-mine")
    with pytest.raises(PluginMissingError):
        machine.find("aws")


def test_a_name_with_a_dash_is_not_cut(machine: Machine) -> None:
    folder = machine.cached("azure-native", "2.0.0")
    assert machine.find("azure-native", "2.0.0").folder == folder


def test_one_that_is_missing_says_how_to_install_it(machine: Machine) -> None:
    with pytest.raises(PluginMissingError) as refused:
        machine.find("aws", "6.1.0", "https://example.org/plugins")
    text = str(refused.value)
    assert text.startswith(
        "no resource plugin 'pulumi-resource-aws' found in the workspace at version v6.1.0"
    )
    assert "`pulumi plugin install resource aws 6.1.0 --server https://example.org/plugins`" in text
    assert str(machine.bin) in text
    assert str(machine.home / "plugins") in text


def test_project_plugins_of_another_version_are_passed_over(machine: Machine, tmp_path: Path) -> None:
    machine.project = [PluginPath("aws", tmp_path / "one", "1.0.0")]
    cached = machine.cached("aws", "2.0.0")
    assert machine.find("aws", "2.0.0").folder == cached
    with pytest.raises(EngineError, match=r"no folder at path '.*one'"):
        machine.find("aws", "1.0.0")


def test_plugins_from_git_are_found_by_their_address(machine: Machine) -> None:
    folder = machine.cached("github.com_me_repo", "1.0.0", executable=False)
    machine.executable(folder, "thing")
    assert machine.find("thing", "1.0.0", "git://github.com/me/repo").folder == folder


def test_python_serves_dynamic_providers_itself(machine: Machine) -> None:
    found = machine.find("pulumi-python")
    assert found.argv == (sys.executable, "-u", "-m", "pulumi.dynamic")
    assert found.shows_output


def test_a_file_is_no_plugin_folder_and_an_empty_folder_no_plugin(machine: Machine, tmp_path: Path) -> None:
    file = machine.executable(tmp_path, "aws")
    machine.project = [PluginPath("aws", file)]
    with pytest.raises(EngineError, match="is not a folder; give the folder"):
        machine.find("aws")
    empty = tmp_path / "empty"
    empty.mkdir()
    machine.project = [PluginPath("aws", empty)]
    with pytest.raises(
        EngineError, match=r"neither the executable 'pulumi-resource-aws' nor a PulumiPlugin\.yaml"
    ):
        machine.find("aws")
    machine.executable(empty, "aws").chmod(0o644)
    with pytest.raises(EngineError, match="may not be executed"):
        machine.find("aws")


class TestPythonPlugins:
    """Folders with a PulumiPlugin.yaml."""

    @pytest.fixture
    def folder(self, machine: Machine, tmp_path: Path) -> Path:
        folder = tmp_path / "plugin"
        folder.mkdir()
        machine.project = [PluginPath("mine", folder)]
        self.write(folder, "runtime: python\n")
        (folder / "__main__.py").touch()
        return folder

    def write(self, folder: Path, text: str) -> None:
        (folder / "PulumiPlugin.yaml").write_text(text)

    def venv(self, folder: Path) -> Path:
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/python").touch(0o755)
        return folder

    def test_without_an_environment_the_engines_own_python_runs_it(
        self, machine: Machine, folder: Path
    ) -> None:
        assert machine.find("mine") == PluginCommand((sys.executable, str(folder)), folder)

    def test_its_environment_is_activated(self, machine: Machine, folder: Path) -> None:
        venv = self.venv(folder / "venv")
        found = machine.find("mine")
        assert found.argv == (str(venv / "bin/python"), str(folder))
        assert found.environ == {"VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:{machine.bin}"}

    def test_one_that_it_names_must_be_there(self, machine: Machine, folder: Path) -> None:
        self.write(folder, "runtime: {name: python, options: {virtualenv: env}}")
        with pytest.raises(
            EngineError, match=r"virtualenv is 'env', but .*/env is not a virtual environment; make it"
        ):
            machine.find("mine")
        venv = self.venv(folder / "env")
        assert machine.find("mine").argv[0] == str(venv / "bin/python")

    def test_uv_keeps_it_where_it_is_told(self, machine: Machine, folder: Path, tmp_path: Path) -> None:
        machine.environ["UV_PROJECT_ENVIRONMENT"] = "elsewhere"
        (tmp_path / "uv.lock").touch()
        venv = self.venv(tmp_path / "elsewhere")
        assert machine.find("mine").argv[0] == str(venv / "bin/python")

    def test_uv_keeps_it_beside_its_lock_file(self, machine: Machine, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "uv.lock").touch()
        venv = self.venv(tmp_path / ".venv")
        assert machine.find("mine").argv[0] == str(venv / "bin/python")

    @pytest.mark.parametrize("beside", ["uv.lock", "pyproject.toml"])
    def test_uv_keeps_it_beside_what_is_nearest_above(
        self, machine: Machine, folder: Path, tmp_path: Path, beside: str
    ) -> None:
        self.write(folder, "runtime: {name: python, options: {toolchain: uv}}")
        (tmp_path / beside).touch()
        venv = self.venv(tmp_path / ".venv")
        assert machine.find("mine").argv[0] == str(venv / "bin/python")

    def test_poetry_without_an_environment_here_is_refused(self, machine: Machine, folder: Path) -> None:
        self.write(folder, "runtime: {name: python, options: {toolchain: poetry}}")
        with pytest.raises(NotSupportedError, match="toolchain poetry"):
            machine.find("mine")

    def test_a_package_is_run_as_one(self, machine: Machine, folder: Path) -> None:
        (folder / "__main__.py").unlink()
        with pytest.raises(EngineError, match=r"neither a __main__\.py nor a pyproject\.toml"):
            machine.find("mine")
        (folder / "pyproject.toml").write_text('[project]\nname = "my-components"\n')
        with pytest.raises(EngineError, match=r"lacks project\.name or build-system"):
            machine.find("mine")
        (folder / "pyproject.toml").write_text(
            '[project]\nname = "my-components"\n[build-system]\nrequires = []\n'
        )
        assert machine.find("mine").argv[1:] == ("-m", "pulumi.run.plugin", "my-components")

    @pytest.mark.parametrize(
        ("text", "kind", "complaint"),
        [
            ("runtime: nodejs", NotSupportedError, "runtime is 'nodejs'"),
            ("name: x", EngineError, "the key 'runtime' is missing"),
            ("runtime: [", EngineError, "could not read"),
            ("runtime: {name: python, options: {virtualenv: 3}}", EngineError, "virtualenv must be a string"),
            (
                "runtime: {name: python, options: {toolchain: conda}}",
                EngineError,
                "allowed are pip, uv, poetry",
            ),
        ],
    )
    def test_mistakes_are_named(
        self, machine: Machine, folder: Path, text: str, kind: Any, complaint: str
    ) -> None:
        self.write(folder, text)
        with pytest.raises(kind, match=complaint):
            machine.find("mine")
