"""Plays a case with a command line: one observation a step, and what Pulumi's own test would not accept."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.engine.scenarios import observe, order
from tests.engine.scenarios.normalise import Normaliser, instant
from tests.engine.scenarios.sandbox import Actor

from .case import Case, Step
from .copy import Copy

_DEADLINE_S: Final = 240.0
_POLL_S: Final = 0.05
#: How long an interrupted command may take before it is interrupted again.
_PATIENCE_S: Final = 15.0
#: What Python may say of asyncio when an interpreter ends: a matter of timing.
_ASIDE: Final = "Exception ignored in: <function BaseEventLoop"
_TIMES: Final = re.compile(r'"(?:created|modified)": "([^"]+)"')


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """A step that was done. ``parts`` can be compared; ``wrong`` is what the test would not accept."""

    step: Step
    parts: dict[str, Any]
    wrong: list[str]
    seconds: float
    printed: str = ""


@dataclass(slots=True)
class Play:
    """One run of one case by one actor."""

    case: Case
    copy: Copy
    actor: Actor
    _names: Normaliser = field(init=False)
    _step_of_time: dict[str, int] = field(default_factory=dict)
    _resources: list[dict[str, Any]] = field(default_factory=list)
    _chance: set[str] = field(default_factory=set)
    _interrupts: int = 0

    def __post_init__(self) -> None:
        project = yaml.safe_load((self.copy.project / "Pulumi.yaml").read_text())["name"]
        self._names = Normaliser(str(self.copy.root), project)

    def run(self) -> list[PlayedStep]:
        """All steps, up to the first that never ends. Raises AssertionError where the stack cannot be made."""
        for words in (["stack", "init", "dev"], *(["config", *shlex.split(c)] for c in self.case.config)):
            self._command([*words, "--non-interactive"])
        return [self._step(number, step) for number, step in enumerate(self.case.steps, 1)]

    def _command(self, arguments: list[str]) -> str:
        done = subprocess.run(
            [*self.actor.argv, *arguments], cwd=self.copy.project, check=False, capture_output=True, text=True,
            env=self.copy.environment(self.actor, self.case.env), stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(f"{shlex.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def _step(self, number: int, step: Step) -> PlayedStep:
        if step.over:
            self.copy.lay_over(step.over)
        log_path = self.copy.root / "events.jsonl"
        log_path.unlink(missing_ok=True)
        words = [*shlex.split(step.do), "--stack", "dev", "--non-interactive"]
        if step.is_operation:
            words += ["--event-log", str(log_path), "--parallel", "1"]
            if not step.do.startswith("preview"):
                words += ["--yes"] if step.previewed else ["--yes", "--skip-preview"]
        began = time.monotonic()
        code, printed = self._run(words, step.interrupt)
        seconds = time.monotonic() - began
        before = order.edges(self._resources)
        deployment = json.loads(self._without_chance(self._command(["stack", "export", "--show-secrets"])))[
            "deployment"
        ]
        for found in _TIMES.findall(json.dumps(deployment)):
            self._step_of_time.setdefault(instant(found), number)
        self._resources = deployment.get("resources") or []
        log_text = log_path.read_text() if log_path.exists() else ""
        log = [json.loads(line) for line in self._without_chance(log_text).splitlines()]
        self._names.learn(deployment)
        self._names.learn(log)
        parts = {"exit code": code, "outputs": self._names.values(_outputs(self._resources))}
        if step.interrupt:
            parts["interrupts"] = self._interrupts
        if step.is_operation:
            parts |= observe.events(log, before | order.edges(self._resources), self._names)
            parts["messages"] = [m for m in parts["messages"] if not m["lines"][0].startswith(_ASIDE)]
        else:
            parts["printed"] = self._names.printed(self._without_chance(printed))
        parts["state"] = observe.state(deployment, self._step_of_time, self._names)
        told = printed + "".join(e.get("diagnosticEvent", {}).get("message", "") for e in log)
        wrong = _wrong(step, code, self._resources, told)
        wrong += [f"there is no file {n!r}" for n in step.leaves if not (self.copy.scratch / n).exists()]
        return PlayedStep(step, parts, wrong, seconds, printed)

    def _run(self, words: list[str], interrupt: str) -> tuple[int, str]:
        output = self.copy.root / "output"
        with output.open("wb") as stream:
            process = subprocess.Popen(
                [*self.actor.argv, *words], cwd=self.copy.project, stdin=subprocess.DEVNULL, stdout=stream,
                stderr=stream, env=self.copy.environment(self.actor, self.case.env), start_new_session=True,
            )  # fmt: skip
            try:
                if interrupt:
                    self._await(process, interrupt, output)
                    self._interrupt(process)
                code = process.wait(_DEADLINE_S)
            except subprocess.TimeoutExpired:
                code = -1
            finally:
                _end(process)
        return code, output.read_text(errors="replace")

    def _interrupt(self, process: subprocess.Popen[bytes]) -> None:
        """Interrupt it, and a second time where that does not end it."""
        for number in (1, 2):
            self._interrupts = number
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                continue
            return

    def _await(self, process: subprocess.Popen[bytes], sign: str, output: Path) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while sign not in output.read_text(errors="replace") and not (self.copy.scratch / sign).exists():
            if process.poll() is not None or time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)

    def _without_chance(self, text: str) -> str:
        """``text`` without what differs from run to run: the whole of a match, or its first group."""
        for pattern in self.case.random:
            self._chance |= set(re.findall(pattern, text))
        for value in sorted(self._chance, key=len, reverse=True):
            text = text.replace(value, "<random>")
        for pattern in self.case.shuffled:
            text = re.sub(pattern, lambda m: m[0].replace(m[1], "<any>"), text)
        return text


def _wrong(step: Step, code: int, resources: list[dict[str, Any]], told: str) -> list[str]:
    wrong = []
    if code == -1:
        wrong.append("it does not end")
    elif step.exit != "any" and (code == 0) != (step.exit == "ok"):
        wrong.append(f"exit code {code}")
    outputs = _outputs(resources)
    for name, value in step.outputs.items():
        if outputs.get(name) != value:
            wrong.append(f"output {name}: {outputs.get(name)!r} instead of {value!r}")
    wrong += [f"it does not say {text!r}" for text in step.says if text not in told]
    wrong += [f"it says {text!r}" for text in step.silent if text in told]
    if step.resources is not None and step.resources != len(resources):
        wrong.append(f"{len(resources)} resources instead of {step.resources}")
    return wrong


def _outputs(resources: list[dict[str, Any]]) -> dict[str, Any]:
    return next((r.get("outputs") or {} for r in resources if r["type"] == "pulumi:pulumi:Stack"), {})


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what the command started and left behind: plugins share its session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # pid (name) state ppid pgrp session ...; a name may hold spaces and parentheses
            if int(stat.read_text().rpartition(")")[2].split()[3]) == process.pid:
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile, as it should
    process.wait()
