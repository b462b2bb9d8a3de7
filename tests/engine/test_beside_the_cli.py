"""The embedded engine does what the real CLI does with the same programs, side by side.

The CLI is the one on PATH, or that of `make pulumi`. By `make agreed` each scenario that was changed is played on
two stacks, by both in turns. Else the engine plays most of them alone, and both where it does not come to what both agreed on when they last played it
(docs/adr/0053).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.engine.scenarios.actors import LEFT_OUT, engine, real_cli, version_of
from tests.engine.scenarios.agreed import agree, agreed, digest_of
from tests.engine.scenarios.compare import differences, without
from tests.engine.scenarios.format import Scenario, Step, Who, load_all
from tests.engine.scenarios.play import Play
from tests.engine.scenarios.sandbox import Actor
from tests.engine.shared import Place

SCENARIOS: Final = load_all(Path(__file__).with_name("programs"))
CLI: Final = real_cli()
#: By `make agreed`: those are played that were changed.
RENEWS: Final = bool(os.environ.get("TIDEPOOL_TESTS_AGREED"))

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CLI is None, reason=LEFT_OUT)]


def known(scenario: Scenario) -> list[pytest.MarkDecorator]:
    return [pytest.mark.xfail(reason=scenario.differs, strict=True)] if scenario.differs else []


@cache
def cli_version() -> str:
    assert CLI is not None
    return version_of(CLI)


@pytest.mark.parametrize("scenario", [pytest.param(s, marks=known(s), id=s.name) for s in SCENARIOS])
def test_engine_does_as_the_cli(scenario: Scenario, tmp_path: Path) -> None:
    if scenario.is_by_both:
        compare(scenario, tmp_path)
        return
    want = agreed(scenario, cli_version())
    if want is None or (not RENEWS and want != digest_of(by_the_engine(scenario, tmp_path / "alone"))):
        came_to = compare(scenario, tmp_path)
        if RENEWS:
            agree(scenario, cli_version(), came_to)


def test_engine_does_as_the_cli_in_a_shared_place(shared: Place, tmp_path: Path) -> None:
    """Each reads what the other wrote there, by turns: secrets, outputs, lists, a change."""
    (scenario,) = (each for each in SCENARIOS if each.name == "round_trip")
    compare(replace(scenario, steps=(*scenario.steps[:8], scenario.steps[-1])), tmp_path, shared)


def by_the_engine(scenario: Scenario, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what the engine alone comes to in each step, without what it means to do otherwise."""
    play = Play(scenario, folder, engine(), {})
    for number, step in enumerate(scenario.steps, 1):
        yield without(play.step(number, step), step.unlike.get("parts", ()))


def compare(scenario: Scenario, folder: Path, shared: Place | None = None) -> str:
    """Return the digest of what both come to; fails where they differ."""
    report: list[str] = []
    came_to = []
    for number, (step, want, got) in enumerate(played(scenario, folder, shared), 1):
        apart = step.unlike.get("parts", ())
        came_to.append(without(got, apart))
        if lines := differences(without(want, apart), came_to[-1]):
            report += [f"step {number}: {step.do} (program {step.program or 'as before'})", *lines]
            if want["exit code"] != got["exit code"]:
                report.append("the steps after it were not played")
                break
    if report:
        pytest.fail(f"{scenario.name} differs from what the CLI does:\n" + "\n".join(report), pytrace=False)
    return digest_of(came_to)


def played(
    scenario: Scenario, folder: Path, shared: Place | None = None
) -> Iterator[tuple[Step, dict[str, Any], dict[str, Any]]]:
    """Yield each step, with what it came to by the CLI and by the engine.

    There are two stacks, and in each step one has the one and the other the other, in turns: each finds what the other left. Who
    was killed goes on itself, for what the engine did is in its journal until its next command.
    """
    assert CLI is not None
    actors: dict[Who, Actor] = {"cli": CLI, "engine": engine()}
    plays = [
        Play(scenario, folder / name, actor, actors, shared.within(name) if shared else None)
        for name, actor in actors.items()
    ]
    turn: tuple[Who, Who] = ("cli", "engine")
    for number, step in enumerate(scenario.steps, 1):
        if scenario.is_of_two:
            turn = ("cli", step.by or "engine")
        seen = [play.step(number, replace(step, by=by)) for play, by in zip(plays, turn, strict=True)]
        for by, each in zip(turn, seen, strict=True):
            if by == "cli":
                hold_to_its_point(scenario, step, each)
        yield step, *(seen if turn[0] == "cli" else reversed(seen))
        if not step.signal_at:
            turn = turn[1], turn[0]


def hold_to_its_point(scenario: Scenario, step: Step, seen: dict[str, Any]) -> None:
    """Fail where a step of the CLI does not end as its scenario says, or a secret is told that nobody asked for."""
    parts = ("exit code", "messages", "summary", "stdout", "stderr")
    said = json.dumps({part: seen[part] for part in parts if part in seen}, indent=1)
    assert (seen["exit code"] == 0) == (step.exit == "ok"), f"{scenario.name}: {step.do}: {said}"
    asked = ("config get", "stack output --json --show-secrets")
    assert not seen["leaks"] or step.do.startswith(asked), f"{scenario.name}: {step.do}: {seen['leaks']}"
