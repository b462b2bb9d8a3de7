"""A cluster of the tests: a project folder with one stack, and the command `tidepool` in it."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import yaml

from demo.breathing import AsUser
from tests.forking import fork_server
from tests.infrastructures.local.needs import needs_machines
from tidepool.clients.slurm import Completed, Job, JobRequest, JobState, Slurm, Transport
from tidepool.clients.slurm.scontrol import Node
from tidepool.cluster.hostlist import expand
from tidepool.infrastructures.connection import transport

ROOT = Path(__file__).parents[2]
TIDEPOOL = Path(sys.executable).with_name("tidepool")
LONG_S = 180.0
T = TypeVar("T")

#: Two small nodes, a login machine, and room to grow.
SPEC: Mapping[str, Any] = {
    "network": "10.78.0.0/16",
    "controller": {"shape": {"cpus": 1, "memory": "512MiB"}},
    "fleets": [
        {
            "name": "cpu",
            "subnet": "10.78.1.0/24",
            "min_nodes": 2,
            "max_nodes": 8,
            "shape": {"cpus": 2, "memory": "256MiB"},
        },
    ],
    "partitions": [{"name": "main", "default": True}],
}


@dataclass
class Cluster:
    """One stack, named as its cluster is; ``spec`` is what `up` reads, and tests may change it.

    ``through`` is a command that runs `tidepool`; ``path`` is its PATH, where it is another one. Slurm is asked on ``login``.
    """

    folder: Path
    data: Path
    images: Path
    stack: str
    spec: dict[str, Any] = field(default_factory=dict)
    through: Sequence[str] = ()
    path: str = ""
    login: str = "login-1"
    #: More of the stack's configuration.
    config: dict[str, Any] = field(default_factory=dict)
    #: Between two looks at a job.
    pause_s: float | None = None

    @classmethod
    def make(cls, folder: Path, images: Path, stack: str, **changes: Any) -> Self:
        """A project folder like the repository's, with another stack, and a data folder of its own."""
        project = folder / "project"
        project.mkdir(parents=True)
        for name in (".venv", "__main__.py", "Pulumi.yaml", "images", "playbooks", "provider"):
            (project / name).symlink_to(ROOT / name)
        needs_machines(folder / "data")
        # Tests edit it; what it is made of is others' too.
        spec = copy.deepcopy({**SPEC, "name": stack, **changes})
        return cls(project, folder / "data", images, stack, spec)

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "LANG", "LC_ALL", "TERM", "PYTHONPATH")
            if name in os.environ
        }
        # What an image of the tests is to have.
        folders = {name: path for name, path in os.environ.items() if name.startswith("TIDEPOOL_FOLDER_")}
        # Whatever engine a person has: the tests are of the embedded one.
        return {
            **kept,
            **folders,
            "PYTHONFAULTHANDLER": "1",
            "TIDEPOOL_DATA": str(self.data),
            "TIDEPOOL_IMAGES": str(self.images),
            "TIDEPOOL_ENGINE": "embedded",
            **({"PATH": self.path} if self.path else {}),
        }

    @property
    def command(self) -> Sequence[str]:
        """`tidepool` of this stack, whose verb and arguments come after it."""
        return [*self.through, str(TIDEPOOL), "--stack", self.stack]

    @property
    def file(self) -> Path:
        """The stack's."""
        return self.folder / f"Pulumi.{self.stack}.yaml"

    def write_spec(self) -> None:
        self.file.write_text(yaml.safe_dump({"config": {"cluster:spec": self.spec, **self.config}}))

    def run(
        self,
        *arguments: str,
        timeout_s: float = LONG_S,
        stdin: str | None = None,
        through: Sequence[str] = (),
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        """The command `tidepool`, whatever comes of it; ``through`` is one more command that runs it.

        It is forked where nothing but another network leads to it (`tests.forking`).
        """
        inside = namespace_of([*through, *self.through])
        if inside is None:
            return self.start(*arguments, timeout_s=timeout_s, stdin=stdin, through=through, **environment)
        words = ["-m", "tidepool.cli", "--stack", self.stack, *arguments]
        env = {**self.environment, **environment}
        return fork_server().run(words, self.folder, env, stdin=stdin, timeout_s=timeout_s, namespace=inside)

    def start(
        self,
        *arguments: str,
        timeout_s: float = LONG_S,
        stdin: str | None = None,
        through: Sequence[str] = (),
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        """The same, started as a person's shell does."""
        return subprocess.run(
            [*through, *self.command, *arguments],
            cwd=self.folder,
            env={**self.environment, **environment},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def tidepool(self, *arguments: str, timeout_s: float = LONG_S) -> str:
        """The command `tidepool`, which must succeed; gives what it said."""
        done = self.run(*arguments, timeout_s=timeout_s)
        assert done.returncode == 0, (
            f"tidepool {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done.stdout

    def up(self, *more: str, timeout_s: float = LONG_S) -> str:
        self.write_spec()
        return self.tidepool("up", "--yes", *more, timeout_s=timeout_s)

    def refused(self, *arguments: str) -> str:
        """The command must fail, and say why without a traceback; gives all that it said."""
        self.write_spec()
        done = self.run(*arguments)
        said = done.stdout + done.stderr
        assert done.returncode != 0, said
        assert "Traceback" not in said, said
        return said

    def down(self, timeout_s: float = LONG_S) -> None:
        self.tidepool("down", "--yes", "--force", "--purge", timeout_s=timeout_s)

    # In the cluster

    def way(self, machine: str) -> Transport:
        """The way to a machine, as root."""
        return transport({"kind": "local", "stack": self.stack, "machine": machine}, self.data)

    def on(self, machine: str, *argv: str, timeout_s: float = 30) -> Completed:
        return self.way(machine).run(argv, timeout_s=timeout_s)

    @contextmanager
    def slurm(self, user: str = "root", machine: str = "") -> Iterator[Slurm]:
        way = self.way(machine or self.login)
        with Slurm(way if user == "root" else AsUser(way, user)) as slurm:
            yield slurm

    def submit(self, script: str, **request: Any) -> int:
        """As the researcher does, from the login machine."""
        work_dir = request.pop("work_dir", "/home/researcher")
        with self.slurm("researcher") as slurm:
            return slurm.submit(JobRequest(f"#!/bin/sh\n{script}\n", work_dir=work_dir, **request)).job_id

    def job(self, job_id: int) -> Job:
        with self.slurm() as slurm:
            (job,) = slurm.job(job_id)
            return job

    def until_job(self, job_id: int, *states: JobState, timeout_s: float = 60) -> Job:
        return until(
            lambda: job if (job := self.job(job_id)).state in states else None,
            f"job {job_id} is {states}",
            timeout_s,
            self.pause_s,
        )

    def until_script(self, job_id: int, timeout_s: float = 60) -> Job:
        """A job whose script runs. Slurm says RUNNING before that, and starts it once more if its node is lost by then."""
        job = self.until_job(job_id, JobState.RUNNING, timeout_s=timeout_s)
        first, step = expand(job.nodelist)[0], f"slurmstepd: [{job_id}.batch]"
        until(
            lambda: step in self.on(first, "ps", "-e", "-o", "args=").stdout.splitlines() or None,
            f"the script of job {job_id} runs",
            timeout_s,
            self.pause_s,
        )
        return job

    def nodes(self) -> dict[str, Node]:
        """Those that are there: no slots."""
        with self.slurm() as slurm:
            return {node.name: node for node in slurm.nodes() if not node.state.is_slot}

    def idle(self) -> list[str]:
        """Those that wait for jobs."""
        found = self.nodes().items()
        return sorted(name for name, node in found if node.state.takes_jobs and not node.state.runs_jobs)


def until(look: Callable[[], T | None], what: str, timeout_s: float = 30, pause_s: float | None = None) -> T:
    """What ``look`` gives once it gives something. Each look costs a processor time: who waits for long looks seldom."""
    began = time.monotonic()
    while True:
        if (seen := look()) is not None:
            return seen
        waited_s = time.monotonic() - began
        assert waited_s < timeout_s, f"not within {timeout_s} s: {what}"
        time.sleep(min(max(0.05, waited_s / 8), 0.5) if pause_s is None else pause_s)


def namespace_of(through: Sequence[str]) -> str | None:
    """The network namespace that a command leads to; "" is this one, and None is that it does more than that."""
    match through:
        case []:
            return ""
        case ["nsenter", namespace, "--"] if namespace.startswith("--net="):
            return namespace.removeprefix("--net=")
    return None


def summary(said: str) -> Mapping[str, Any]:
    """What `--json` of an operation said."""
    told: Mapping[str, Any] = json.loads(said)
    return told
