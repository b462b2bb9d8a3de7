"""Plays a scenario with a command line: one observation a step."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tidepool.engine import command

from . import normalise, observe, order
from .format import Scenario, Step, Who
from .normalise import Normaliser
from .sandbox import Actor, Ran, Sandbox

_TIMES: Final = re.compile(r'"(?:created|modified)": "([^"]+)"')


class Play:
    """One run of one scenario: ``main`` does the steps that are nobody's in particular, ``actors`` has who does the others."""

    def __init__(
        self,
        scenario: Scenario,
        root: Path,
        main: Actor,
        actors: Mapping[Who, Actor],
        state: Mapping[str, str] | None = None,
    ) -> None:
        self._scenario = scenario
        self._main = main
        self._actors = actors
        self._box = Sandbox(root, scenario, state)
        self._is_elsewhere = state is not None
        self._names = Normaliser(str(root), scenario.project)
        self._stacks: set[str] = set()
        self._resources: list[dict[str, Any]] = []
        self._step_of_time: dict[str, int] = {}
        self._starts: dict[int, float] = {}
        self._calls_seen = 0
        self._stored_last: tuple[str, tuple[bytes, ...]] | None = None
        self._exported_last: dict[str, Any] | None = None
        self._program = 1

    @property
    def box(self) -> Sandbox:
        """The folders of this run."""
        return self._box

    def step(self, number: int, step: Step) -> dict[str, Any]:
        """Run one step and look at what became of it."""
        box = self._box
        actor = self._actors[step.by] if step.by else self._main
        self._program = step.program or self._program
        env = box.environment(actor, self._program, step.env)
        box.write_files(step.files)
        box.edit_world(step.world)
        if step.stack not in self._stacks and not step.do.startswith("stack init"):
            self._must(box.run(actor, ["stack", "init", step.stack, "--non-interactive"], env))
        self._stacks.add(step.stack)
        if step.do.startswith("stack rename "):
            self._stacks.add(step.do.split()[2])
        log_path = box.root / "events.jsonl"
        log_path.unlink(missing_ok=True)

        words = box.arguments(step)
        ran = (
            box.run_and_signal(actor, words, env, step.signal_at)
            if step.signal_at
            else box.run(actor, words, env)
        )

        seen: dict[str, Any] = {"do": step.do, "exit code": ran.exit_code}
        if step.why:
            seen["why"] = step.why
        log_text = log_path.read_text() if log_path.exists() else ""
        before = order.edges(self._resources)
        deployment = self._state_after(step)
        self._starts[number] = ran.started
        self._learn_times(deployment)
        log = [json.loads(line) for line in log_text.splitlines()]
        self._names.learn(deployment)
        self._names.learn(log)
        self._resources = (deployment or {}).get("resources") or []
        dependencies = before | order.edges(self._resources)
        if step.is_operation:
            seen |= observe.events(log, dependencies, self._names)
        seen |= observe.calls(self._new_calls(), dependencies, self._names)
        seen["cloud"] = self._names.values(observe.objects(box.cloud / "objects"))
        if deployment is not None:
            seen["state"] = observe.state(deployment, self._step_of_time, self._names)
        if step.vague:
            seen.pop("messages", None)
        if step.text or not step.is_operation or not log:
            seen["stdout"] = self._names.printed(ran.stdout)
            seen["stderr"] = self._names.message(ran.stderr)
        seen["leaks"] = observe.leaks(
            {"stdout": ran.stdout, "stderr": ran.stderr, "event log": log_text} | self._stored(),
            self._scenario.secrets,
        )
        return seen

    def _state_after(self, step: Step) -> dict[str, Any] | None:
        """The stack's state with secrets in clear; read again only where the step may have changed it."""
        folder = self._box.backend / ".pulumi" / "stacks"
        stored = (step.stack, tuple(p.read_bytes() for p in sorted(folder.rglob("*.json"))))
        # After a kill there may be more than the checkpoint says.
        if stored != self._stored_last or step.signal_at or self._is_elsewhere:
            self._exported_last = self._export(step.stack)
            self._stored_last = stored
        return self._exported_last

    def _export(self, stack: str) -> dict[str, Any] | None:
        # By the engine whoever it was: both write one format, and in this process that takes no time.
        out = io.StringIO()
        words = ("stack", "export", "--show-secrets", "--stack", stack)
        env = self._box.environment(self._main, self._program)
        if command.main(words, self._box.project, env, out, io.StringIO(), interactive=False) != 0:
            return None  # the stack is gone, which the step's own output says too
        deployment: dict[str, Any] = json.loads(out.getvalue())["deployment"]
        return deployment

    def _learn_times(self, deployment: dict[str, Any] | None) -> None:
        """Find the step that each new time in the state falls in."""
        for time in _TIMES.findall(json.dumps(deployment)):
            key = normalise.instant(time)
            if key not in self._step_of_time:
                moment = datetime.fromisoformat(time).timestamp()
                self._step_of_time[key] = max(
                    (n for n, begun in self._starts.items() if begun <= moment), default=0
                )

    def _calls(self) -> list[str]:
        path = self._box.cloud / "calls.jsonl"
        return path.read_text().splitlines() if path.exists() else []

    def _new_calls(self) -> list[str]:
        lines = self._calls()
        new = lines[self._calls_seen :]
        self._calls_seen = len(lines)
        return new

    def _stored(self) -> dict[str, str]:
        """All that ``pulumi`` keeps of the stacks, where a secret must not be in clear."""
        places = [*self._box.backend.rglob("*"), *self._box.project.glob("Pulumi.*.yaml")]
        return (
            {p.name: p.read_text(errors="replace") for p in places if p.is_file()}
            if self._scenario.secrets
            else {}
        )

    def _must(self, ran: Ran) -> None:
        if ran.exit_code != 0:
            raise AssertionError(f"preparing the stack failed: {ran.stdout}{ran.stderr}")
