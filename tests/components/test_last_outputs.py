"""A program reads its own stack's outputs, also while the CLI is writing its state."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pulumi
import pytest

from tests.engine.scenarios.actors import LEFT_OUT, real_cli
from tidepool.components.desired_state import HALF_WRITTEN, last_outputs

CLI: Final = real_cli()


class _Engine:
    """Answers as the CLI's does: so often with half a file."""

    def __init__(self, failures: list[str]) -> None:
        self.failures = failures
        self.asked: list[Mapping[str, Any]] = []

    def invoke(self, token: str, arguments: Mapping[str, Any]) -> Any:
        assert token == "pulumi:pulumi:readStackOutputs"
        self.asked.append(arguments)
        if self.failures:
            raise Exception(self.failures.pop(0))
        return SimpleNamespace(value={"outputs": {"fleets": {"cpu": "cpu-[1-2]"}}, "secretOutputNames": []})


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> _Engine:
    engine = _Engine([])
    monkeypatch.setattr(pulumi.runtime, "invoke", engine.invoke)
    for name, value in (("organization", "organization"), ("project", "cluster"), ("stack", "dev")):
        monkeypatch.setattr(pulumi, f"get_{name}", lambda value=value: value)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return engine


def test_the_stack_that_is_read_is_the_programs_own(engine: _Engine) -> None:
    assert last_outputs() == {"fleets": {"cpu": "cpu-[1-2]"}}
    assert engine.asked == [{"name": "organization/cluster/dev"}]


def test_a_state_that_is_being_written_is_read_again(engine: _Engine) -> None:
    engine.failures = [f"returned an error: {HALF_WRITTEN}: EOF"] * 3
    assert "fleets" in last_outputs()
    assert len(engine.asked) == 4


@pytest.mark.slow
@pytest.mark.skipif(CLI is None, reason=LEFT_OUT)
def test_half_a_state_is_in_the_clis_words(tmp_path: Path) -> None:
    assert CLI is not None
    program = CLI.argv
    project, backend = tmp_path / "project", tmp_path / "backend"
    for folder in (project, backend):
        folder.mkdir()
    (project / "Pulumi.yaml").write_text("name: cluster\nruntime: python\n")
    environment = {
        "PATH": CLI.path,
        "HOME": str(tmp_path),
        "PULUMI_HOME": str(tmp_path),
        "PULUMI_BACKEND_URL": backend.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "correct horse",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*program, "stack", *words, "--non-interactive"]
        return subprocess.run(
            command, check=False, cwd=project, env=environment, capture_output=True, text=True
        )

    assert run("init", "dev").returncode == 0
    state = backend / ".pulumi/stacks/cluster/dev.json"
    state.write_text(state.read_text()[:40])
    assert HALF_WRITTEN in run("output").stderr


def test_what_does_not_go_away_is_told(engine: _Engine) -> None:
    engine.failures = [f"{HALF_WRITTEN}: EOF"] * 1000
    with pytest.raises(Exception, match="EOF"):
        last_outputs()
    engine.failures = ["incorrect passphrase"]
    with pytest.raises(Exception, match="incorrect passphrase"):
        last_outputs()


def test_whole_numbers_are_integers_again(engine: _Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol has floats alone."""
    outputs = {"spec": {"cpus": 2.0, "price": 0.5, "names": ["a", 3.0], "on": True, "nothing": None}}
    answer = SimpleNamespace(value={"outputs": outputs})
    monkeypatch.setattr(pulumi.runtime, "invoke", lambda *_: answer)
    found = last_outputs()
    assert found == {"spec": {"cpus": 2, "price": 0.5, "names": ["a", 3], "on": True, "nothing": None}}
    assert [type(value) for value in found["spec"].values()] == [int, float, list, bool, type(None)]
