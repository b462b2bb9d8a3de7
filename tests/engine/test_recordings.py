"""The embedded engine does what the real CLI did with the same programs.

``recordings/`` holds what the CLI did; ``record.py`` writes it. Where the Pulumi CLI is, on PATH or
built by `make pulumi`, both are run and compared directly as well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.engine.scenarios.actors import LEFT_OUT, engine, real_cli
from tests.engine.scenarios.compare import differences, without
from tests.engine.scenarios.format import Scenario, load_all
from tests.engine.scenarios.play import Play
from tests.engine.scenarios.recording import unfolded
from tests.engine.scenarios.sandbox import Actor

HERE = Path(__file__).parent
SCENARIOS = load_all(HERE / "programs")
OF_TWO = [s for s in SCENARIOS if s.of_two]


def recording_of(scenario: Scenario) -> dict[str, Any]:
    """The recording of ``scenario``, its steps complete."""
    recording: dict[str, Any] = json.loads((HERE / "recordings" / f"{scenario.name}.json").read_text())
    recording["steps"] = unfolded(recording["steps"])
    return recording


def expect_same(scenario: Scenario, play: Play, expected: list[dict[str, Any]]) -> None:
    """Play all steps and fail with every difference from ``expected``."""
    report: list[str] = []
    for number, step in enumerate(scenario.steps, 1):
        apart = ("left", *step.unlike.get("parts", ()))
        want = without(expected[number - 1], apart)
        got = without(play.step(number, step), apart)
        if lines := differences(want, got):
            report += [f"step {number}: {step.do} (program {step.program or 'as before'})", *lines]
            if want.get("exit code") != got.get("exit code"):
                report.append("the steps after it were not played")
                break
    if report:
        pytest.fail(f"{scenario.name} differs from what the CLI does:\n" + "\n".join(report), pytrace=False)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_engine_does_as_recorded(scenario: Scenario, tmp_path: Path) -> None:
    steps = recording_of(scenario)["steps"]
    expect_same(scenario, Play(scenario, tmp_path, engine(), {"engine": engine()}, steps), steps)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_recording_is_of_this_scenario(scenario: Scenario) -> None:
    recording = recording_of(scenario)
    assert [s["do"] for s in recording["steps"]] == [s.do for s in scenario.steps]
    assert [s["exit code"] == 0 for s in recording["steps"]] == [s.exit == "ok" for s in scenario.steps]
    asked = ("config get", "stack output --json --show-secrets")
    assert not [s["leaks"] for s in recording["steps"] if s["leaks"] and not s["do"].startswith(asked)]


@pytest.mark.parametrize("scenario", OF_TWO, ids=lambda s: s.name)
def test_recording_proves_that_both_work_on_one_stack(scenario: Scenario) -> None:
    proof = recording_of(scenario)["proof"]
    assert [(p["by"], p["do"], p["exit code"] == 0) for p in proof] == [
        (s.by, s.do, s.exit == "ok") for s in scenario.steps
    ]


@pytest.fixture
def cli() -> Actor:
    """The real CLI; without one there is nothing to compare with."""
    found = real_cli()
    if found is None:
        pytest.skip(LEFT_OUT)
    return found


#: The recordings are of an interpreter without packages of providers; that of the tests has some.
PACKAGES: Final = pytest.mark.xfail(
    reason="the CLI takes versions of default providers from the state only where no package names a plugin"
)
#: All are run by `make test-cli`; those in which a stack goes from one to the other are slow tests besides.
MARKS: Final = {"options": PACKAGES, **{s.name: pytest.mark.slow for s in OF_TWO}}


@pytest.mark.cli
@pytest.mark.parametrize(
    "scenario", [pytest.param(s, marks=MARKS.get(s.name, ()), id=s.name) for s in SCENARIOS]
)
def test_engine_does_as_the_cli(scenario: Scenario, tmp_path: Path, cli: Actor) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "engine").mkdir()
    alone = Play(scenario, tmp_path / "cli", cli, {"cli": cli, "engine": cli})
    expected = [alone.step(number, step) for number, step in enumerate(scenario.steps, 1)]
    # In a scenario of two, the steps of the CLI are its own here, on what the engine left.
    play = Play(scenario, tmp_path / "engine", engine(), {"cli": cli, "engine": engine()})
    expect_same(scenario, play, expected)
