"""`tidepool new`: a project whose program is the repository's own, and whose test passes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.standins import Person
from tidepool.cli import errors
from tidepool.cli.new import project_files
from tidepool.cluster.spec_reading import read_spec

ROOT = Path(__file__).parents[2]
FILES = [
    ".gitignore",
    "Pulumi.physics.yaml",
    "Pulumi.yaml",
    "__main__.py",
    "requirements.txt",
    "test_physics.py",
]


def test_a_project_is_written_and_its_own_test_passes(somebody: Person, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    said = somebody.runs("-C", str(folder), "new", "physics")
    assert said.exit_code == 0, said.output
    assert sorted(each.name for each in folder.iterdir()) == FILES
    assert (folder / "__main__.py").read_text() == (ROOT / "__main__.py").read_text()
    config = yaml.safe_load((folder / "Pulumi.physics.yaml").read_text())["config"]
    assert read_spec(config["cluster:spec"]).name == "physics"
    assert yaml.safe_load((folder / "Pulumi.yaml").read_text())["runtime"] == {"name": "python"}
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout
    assert "1 passed" in tested.stdout


def test_nothing_is_written_over(somebody: Person, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "requirements.txt").write_text("mine\n")
    said = somebody.runs("new", "physics", "-C", str(folder))
    assert said.exit_code == errors.USAGE
    assert "has requirements.txt already, and nothing was written" in said.output
    assert [each.name for each in folder.iterdir()] == ["requirements.txt"]


@pytest.mark.parametrize("name", ["My Cluster", "physics_lab", "physics-", "9lives", "p" * 41])
def test_a_name_that_no_stack_and_no_host_can_have_is_refused(
    somebody: Person, tmp_path: Path, name: str
) -> None:
    said = somebody.runs("new", name, "-C", str(tmp_path / "mine"))
    assert said.exit_code == errors.USAGE
    assert f"a project cannot be called {name}" in said.output
    assert "small letters, digits or '-', not '-' at the end, at most 40" in " ".join(said.output.split())
    assert not (tmp_path / "mine").exists()


def test_the_virtual_environment_of_the_folder_is_the_projects(tmp_path: Path) -> None:
    written = project_files("physics", tmp_path, tmp_path / ".venv")["Pulumi.yaml"]
    assert yaml.safe_load(written)["runtime"] == {"name": "python", "options": {"virtualenv": ".venv"}}
