"""Stand-ins for what the command is in front of: an engine with given answers, and a project in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tests.simulation.slurm import FakeSlurm
from tidepool.cli.context import Context
from tidepool.cli.engine import Answer
from tidepool.cli.main import cli
from tidepool.clients.slurm import SlurmClient
from tidepool.engine.choice import EngineName

SPEC: Mapping[str, Any] = {
    "name": "dev",
    "network": "10.99.0.0/16",
    "controller": {"login_machines": 1, "shape": {"cpus": 1, "memory": "64MiB"}},
    "fleets": [
        {
            "name": "cpu",
            "subnet": "10.99.1.0/24",
            "min_nodes": 2,
            "max_nodes": 4,
            "shape": {"cpus": 1, "memory": "64MiB"},
        }
    ],
    "partitions": [{"name": "main"}],
}
CONTROLLER: Mapping[str, Any] = {"kind": "local", "stack": "dev", "machine": "ctl"}
OUTPUTS: Mapping[str, Any] = {
    "cluster": "dev",
    "controller": CONTROLLER,
    "logins": [{"kind": "local", "stack": "dev", "machine": "login-1"}],
    "fleets": {"cpu": "cpu-[1-2]"},
    "sshKey": "[secret]",
}


@dataclass
class FakeEngine:
    """Answers ``stack output`` with ``outputs`` (None: no such stack), ``stack export`` with ``exported``, and keeps all that it is asked."""

    outputs: Mapping[str, Any] | None = None
    exported: Mapping[str, Any] | None = None
    #: The stacks that it knows; None: it fails.
    made: Sequence[str] | None = ()
    code: int = 0
    events: Sequence[Mapping[str, Any]] = ()
    name: EngineName = "embedded"
    asked: list[tuple[str, ...]] = field(default_factory=list)
    ran: list[tuple[str, ...]] = field(default_factory=list)
    #: The environment of each of these.
    environments: list[Mapping[str, str]] = field(default_factory=list)

    def run(self, words: Sequence[str], folder: Path, env: Mapping[str, str], *, aside: bool) -> int:
        self.ran.append(tuple(words))
        self.environments.append(env)
        if "--event-log" in words:
            log = Path(words[words.index("--event-log") + 1])
            log.write_text("".join(json.dumps(event) + "\n" for event in self.events))
        return self.code

    def ask(self, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> Answer:
        self.asked.append(tuple(words))
        if tuple(words[:2]) == ("stack", "export"):
            return Answer(0, json.dumps(self.exported) if self.exported is not None else "", "")
        if tuple(words[:2]) == ("stack", "ls"):
            listed = [{"name": f"organization/cluster/{name}", "current": False} for name in self.made or ()]
            return Answer(int(self.made is None), json.dumps(listed), "")
        if tuple(words[:2]) != ("stack", "output"):
            return Answer(0, "", "")
        if self.outputs is None:
            return Answer(6, "", "error: no stack named 'dev' found\n")
        if "--show-secrets" in words:
            return Answer(0, json.dumps(self.outputs[words[words.index("--show-secrets") + 1]]), "")
        return Answer(0, json.dumps(self.outputs), "")


@dataclass
class Person:
    """Somebody in a project's folder, with a command line."""

    folder: Path
    context: Context
    engine: FakeEngine
    slurm: FakeSlurm

    def write(self, stack: str = "dev", **changes: Any) -> None:
        """The file of a stack, with `SPEC` changed."""
        spec = {key: value for key, value in {**SPEC, **changes}.items() if value is not None}
        (self.folder / f"Pulumi.{stack}.yaml").write_text(json.dumps({"config": {"cluster:spec": spec}}))

    def runs(self, *words: str, input: str = "", **context: Any) -> Result:
        """What comes of a command line, with ``input`` typed."""
        made = replace(self.context, **context)
        return CliRunner().invoke(cli, list(words), input=input, obj=made, prog_name="tidepool")


def person(folder: Path, data: Path) -> Person:
    """In a new project with the stack `dev`, whose cluster is not up."""
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: cluster\nruntime: python\n")
    slurm, engine = FakeSlurm(), FakeEngine()

    def open_slurm(connection: Mapping[str, Any], _data: Path) -> SlurmClient:
        assert connection == CONTROLLER
        return slurm

    env = {"TIDEPOOL_DATA": str(data), "HOME": str(folder), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    context = Context(env, folder, engine=engine, open_slurm=open_slurm)
    made = Person(folder, context, engine, slurm)
    made.write()
    return made
