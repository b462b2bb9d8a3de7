"""The folders that a scenario runs in, and how a command is run there."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.forking import fork_server

from .format import Scenario, Step

_DEADLINE_S: Final = 120.0
_POLL_S: Final = 0.02
PASSPHRASE: Final = "correct horse"


@dataclass(frozen=True, slots=True)
class Actor:
    """A command line that understands what ``pulumi`` does, and what its processes need to find."""

    name: str
    argv: tuple[str, ...]
    path: str
    python_path: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended. Times are seconds since the epoch."""

    exit_code: int
    stdout: str
    stderr: str
    started: float
    ended: float


class Sandbox:
    """One scenario's folders: the program, its plugins, the cloud, and everything ``pulumi`` keeps."""

    def __init__(self, root: Path, scenario: Scenario, state: Mapping[str, str] | None = None) -> None:
        """``state``: the variables that say where state is; by default it is in a folder of its own."""
        self.root = root
        programs = scenario.folder.parent
        self.project = root / "program"
        shutil.copytree(
            scenario.folder, self.project, ignore=shutil.ignore_patterns("__pycache__", "scenario.yaml")
        )
        for module in (programs / "sdk").glob("*.py"):
            shutil.copy(module, self.project)
        shutil.copytree(programs / "plugins", root / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
        for plugin in (root / "plugins").glob("*/PulumiPlugin.yaml"):
            # The language host runs a Python plugin with the virtual environment beside it, and no other.
            (plugin.parent / "venv").symlink_to(sys.prefix)
        self.backend = root / "backend"
        self.cloud = root / "cloud"
        for folder in (self.backend, root / "home", self.cloud / "objects", self.cloud / "began"):
            folder.mkdir(parents=True)
        self._state = state or {"PULUMI_BACKEND_URL": self.backend.as_uri()}

    def environment(
        self, actor: Actor, program: int, extra: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """The whole environment of a command: nothing of the caller's own Pulumi leaks in."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("PULUMI_") and k != "PYTHONPATH"}
        env |= {
            "PATH": actor.path,
            "PULUMI_HOME": str(self.root / "home"),
            **self._state,
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DEBUG_COMMANDS": "true",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONFAULTHANDLER": "1",
            # The CLI lives for a second or two: a sixth of its work is to collect garbage.
            "GOGC": "off",
            "CLOUD_DIR": str(self.cloud),
            "STEP": str(program),
        }
        if actor.python_path:
            env["PYTHONPATH"] = actor.python_path
        return {**env, **(extra or {})}

    def run(self, actor: Actor, arguments: Sequence[str], env: Mapping[str, str]) -> Ran:
        """Run a command to its end; raises TimeoutError where it does not come to one."""
        python, *words = actor.argv
        if python != sys.executable:
            return self.run_and_signal(actor, arguments, env)
        started = time.time()
        try:
            done = fork_server().run([*words, *arguments], self.project, env, timeout_s=_DEADLINE_S)
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(
                f"{shlex.join(arguments)} did not end: {late.stdout!r}{late.stderr!r}"
            ) from late
        return Ran(done.returncode, done.stdout, done.stderr, started, time.time())

    def run_and_signal(
        self,
        actor: Actor,
        arguments: Sequence[str],
        env: Mapping[str, str],
        signal_at: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run a command; once the cloud began the call ``signal_at["when"]``, signal as ``send`` says."""
        started = time.time()
        out, err = self.root / "stdout", self.root / "stderr"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [*actor.argv, *arguments], cwd=self.project, env=dict(env), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
            )  # fmt: skip
            try:
                if signal_at:
                    self._signal(process, signal_at)
                exit_code = process.wait(_DEADLINE_S)
            except subprocess.TimeoutExpired as error:
                raise TimeoutError(
                    f"{shlex.join(arguments)} did not end: {out.read_text()}{err.read_text()}"
                ) from error
            finally:
                _kill_all(process)
        if exit_code < 0 and not signal_at:
            killer = signal.Signals(-exit_code).name
            raise RuntimeError(
                f"{shlex.join(arguments)} died of {killer}: {out.read_text()}{err.read_text()}"
            )
        return Ran(exit_code, out.read_text(), err.read_text(), started, time.time())

    def edit_world(self, edits: Sequence[Mapping[str, Any]]) -> None:
        """Change the cloud behind the provider's back."""
        for edit in edits:
            match dict(edit):
                case {"drift": id, **rest}:
                    path = self.cloud / "objects" / f"{id}.json"
                    thing = json.loads(path.read_text())
                    for part in ("inputs", "outputs"):
                        thing[part] |= rest.get("set", {})
                        for key in rest.get("unset", ()):
                            thing[part].pop(key, None)
                    path.write_text(json.dumps(thing, sort_keys=True))
                case {"gone": id}:
                    (self.cloud / "objects" / f"{id}.json").unlink()
                case {"add": id, "type": type, "inputs": inputs}:
                    outputs = inputs | {"address": f"{id}.nowhere", "serial": 0, "revision": 7}
                    thing = {"type": type, "inputs": inputs, "outputs": outputs}
                    (self.cloud / "objects" / f"{id}.json").write_text(json.dumps(thing, sort_keys=True))
                case {"faults": faults}:
                    (self.cloud / "faults.json").write_text(json.dumps(faults))
                case _:
                    raise ValueError(f"unknown edit of the world: {edit}")

    def write_files(self, files: Mapping[str, str | None]) -> None:
        """Write or remove files of the project folder."""
        for name, content in files.items():
            path = self.project / name
            if content is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)

    def arguments(self, step: Step) -> list[str]:
        """The whole command line of ``step``, without the command."""
        arguments = [a.replace("{state}", str(self.root / "state.json")) for a in shlex.split(step.do)]
        arguments.append("--non-interactive")
        if step.is_operation:
            arguments += ["--stack", step.stack, "--event-log", str(self.root / "events.jsonl")]
            arguments += ["--parallel", str(step.parallel)]
            if step.verb != "preview":
                arguments += [] if "--preview-only" in arguments else ["--yes", "--skip-preview"]
        return arguments

    def _signal(self, process: subprocess.Popen[bytes], signal_at: Mapping[str, str]) -> None:
        marker = self.cloud / "began" / signal_at["when"]
        deadline = time.monotonic() + _DEADLINE_S
        while not marker.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the call {marker.name} never began")
            time.sleep(_POLL_S)
        marker.unlink()
        match signal_at["send"]:
            case "kill":
                _kill_all(process)
            case "interrupt":
                process.send_signal(signal.SIGINT)
            case other:
                raise ValueError(f"unknown signal {other!r}")


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """End a command and all it started: plugins have process groups of their own, but share its session."""
    # First of all the one that could still write down that another has died.
    process.kill()
    process.wait()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # pid (name) state ppid pgrp session ...; a name may hold spaces and parentheses
            session = stat.read_text().rpartition(")")[2].split()[3]
            if int(session) == process.pid:
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile, as it should
