"""Write down what the real CLI does with the programs: ``python -m tests.engine.record [NAME...]``.

Needs a ``pulumi`` command with its Python language plugin on PATH. Running it twice changes nothing. A
scenario of two is played by the CLI alone first, then by the CLI and the embedded engine in turns: where
that comes out the same, the recording says so, with the CLI's version.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.engine.scenarios.actors import engine, real_cli, version_of
from tests.engine.scenarios.compare import differences, without
from tests.engine.scenarios.format import Scenario, Step, load_all
from tests.engine.scenarios.play import Play
from tests.engine.scenarios.recording import dump, folded, unfolded
from tests.engine.scenarios.sandbox import Actor

HERE = Path(__file__).parent


def record(scenario: Scenario, cli: Actor, version: str) -> dict[str, Any]:
    """What the CLI does with ``scenario``; AssertionError where a step ends otherwise than it says."""
    with tempfile.TemporaryDirectory(prefix="record-") as root:
        play = Play(scenario, Path(root), cli, {"cli": cli, "engine": cli})
        steps = []
        for number, step in enumerate(scenario.steps, 1):
            seen = play.step(number, step)
            _expect(scenario, number, step, seen)
            if step.by == "cli" and [s.by for s in scenario.steps[number : number + 1]] == ["engine"]:
                seen["left"] = play.left()
            steps.append(seen)
    return {"scenario": scenario.name, "about": scenario.about, "pulumi": version, "steps": steps}


def prove(scenario: Scenario, recording: dict[str, Any], cli: Actor) -> list[dict[str, Any]]:
    """Play ``scenario`` in turns; AssertionError where a step is not as recorded."""
    proof = []
    with tempfile.TemporaryDirectory(prefix="record-") as root:
        play = Play(scenario, Path(root), engine(), {"cli": cli, "engine": engine()})
        for number, step in enumerate(scenario.steps, 1):
            seen = play.step(number, step)
            want = _compared(recording["steps"][number - 1], step)
            if report := differences(want, _compared(seen, step)):
                raise AssertionError(
                    f"{scenario.name}, step {number} ({step.by}: {step.do}) in turns:\n"
                    + "\n".join(report[:80])
                )
            proof.append(
                {"by": step.by, "do": step.do, "exit code": seen["exit code"], "summary": seen.get("summary")}
            )
    return proof


def write(path: Path, recording: dict[str, Any]) -> bool:
    """Write ``recording``, unless ``path`` holds the same but for salts and random ids; whether it was written."""
    if path.exists():
        old = json.loads(path.read_text())
        old["steps"] = unfolded(old["steps"])
        if _lasting(old) == _lasting(recording):
            return False
    path.write_text(dump({**recording, "steps": folded(recording["steps"])}) + "\n")
    return True


def main() -> int:
    """Record the named scenarios, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cli = real_cli()
    if cli is None:
        print("no `pulumi` on PATH: nothing to record with", file=sys.stderr)
        return 1
    version = version_of(cli)
    chosen = [s for s in load_all(HERE / "programs") if not options.names or s.name in options.names]

    def one(scenario: Scenario) -> str | None:
        path = HERE / "recordings" / f"{scenario.name}.json"
        problem = None
        try:
            recording = record(scenario, cli, version)
            if scenario.of_two:
                try:
                    recording["proof"] = prove(scenario, recording, cli)
                except AssertionError as error:
                    problem = str(error)
            if write(path, recording):
                print(f"{scenario.name}: written, {len(scenario.steps)} steps", flush=True)
        except (AssertionError, TimeoutError) as error:
            problem = str(error)
        if problem:
            print(problem, file=sys.stderr, flush=True)
        return problem

    with ThreadPoolExecutor(options.jobs) as pool:
        problems = [problem for problem in pool.map(one, chosen) if problem]
    return 1 if problems else 0


def _expect(scenario: Scenario, number: int, step: Step, seen: dict[str, Any]) -> None:
    if (seen["exit code"] == 0) != (step.exit == "ok"):
        parts = ("exit code", "messages", "summary", "stdout", "stderr")
        detail = json.dumps({k: seen[k] for k in parts if k in seen}, indent=1)
        raise AssertionError(f"{scenario.name}, step {number} ({step.do}): expected {step.exit}: {detail}")


def _lasting(recording: dict[str, Any]) -> dict[str, Any]:
    return {**recording, "steps": [without(step, ("left",)) for step in recording["steps"]]}


def _compared(seen: dict[str, Any], step: Step) -> dict[str, Any]:
    return without(seen, ("left", *step.unlike.get("parts", ())))


if __name__ == "__main__":
    sys.exit(main())
