"""A stack with a small real cluster, brought up and changed by the embedded engine as a person does it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.forking import fork_server
from tests.infrastructures.local import stacks as local_stacks
from tidepool.clients.slurm import NodeFlag, Slurm
from tidepool.infrastructures.connection import InMachine
from tidepool.infrastructures.local import kernel

CHECKOUT: Final = Path(__file__).parents[2]
_PROGRAM: Final = CHECKOUT / "tests" / "provider" / "program"
_DEADLINE_S: Final = 180


def fleet(name: str = "cpu", subnet: int = 1, max_nodes: int = 4, **more: Any) -> dict[str, Any]:
    """A fleet of small nodes."""
    return {
        "name": name,
        "subnet": f"10.91.{subnet}.0/24",
        "max_nodes": max_nodes,
        "shape": {"cpus": 1, "memory": "500MiB"},
        **more,
    }


@dataclass(frozen=True, slots=True)
class Ran:
    """An operation that has ended."""

    code: int
    text: str

    @property
    def changes(self) -> list[str]:
        """What it says of how many resources it touched: ``2 created``, ``13 unchanged``."""
        _, _, tail = self.text.rpartition("Resources:")
        lines = (line.strip(" +-~±") for line in tail.splitlines())
        return [line for line in lines if line[:1].isdecimal()]


@dataclass
class Stack:
    """The stack ``name``, all of it below ``root``; ``wanted`` is what its program reads."""

    root: Path
    images: Path
    name: str = "dev"
    wanted: dict[str, Any] = field(default_factory=dict)
    program: Path = _PROGRAM
    #: Of the environment, beyond what all have.
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def backend(self) -> Path:
        return self.root / "state"

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PULUMI_", "TIDEPOOL_"))}
        return kept | {
            "PYTHONPATH": str(CHECKOUT),
            "PULUMI_HOME": str(self.root / "home"),
            "PULUMI_BACKEND_URL": self.backend.as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "correct horse",
            "TIDEPOOL_DATA": str(self.data),
            "TIDEPOOL_IMAGES": str(self.images),
            "WANTED": str(self.root / "wanted.json"),
            "CHECKOUT": str(CHECKOUT),
            **self.more,
        }

    def want(self, *fleets: dict[str, Any], nodes: dict[str, int], **more: Any) -> None:
        """Have the program make these fleets, with so many nodes up; ``spec`` has more of the spec."""
        spec = {
            "name": "physics",
            "network": "10.91.0.0/16",
            "fleets": list(fleets),
            "partitions": [{"name": "main"}],
            **more.pop("spec", {}),
        }
        self.wanted = {"spec": spec, "nodes": nodes, **more}

    def start(self, verb: str, *flags: str) -> subprocess.Popen[str]:
        """Begin an operation."""
        return subprocess.Popen(
            [sys.executable, *self._words(verb, flags)],
            cwd=self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, verb: str, *flags: str) -> Ran:
        """Run an operation to its end."""
        words = self._words(verb, flags)
        done = fork_server().run(words, self.project, self.env, timeout_s=_DEADLINE_S, merged=True)
        assert "Traceback" not in done.stdout, done.stdout
        return Ran(done.returncode, done.stdout)

    def _words(self, verb: str, flags: Sequence[str]) -> list[str]:
        """The command line, for the program as it is wanted."""
        (self.root / "wanted.json").write_text(json.dumps(self.wanted))
        agreed = [] if verb == "preview" else ["--yes", "--skip-preview"]
        return ["-m", "tidepool.engine", verb, *agreed, "--stack", self.name, *flags]

    def done(self, verb: str, *flags: str) -> Ran:
        """Run an operation that is to succeed."""
        ran = self.run(verb, *flags)
        assert ran.code == 0, ran.text
        return ran

    def refused(self, verb: str, *flags: str) -> Ran:
        """Run an operation that is to fail."""
        ran = self.run(verb, *flags)
        assert ran.code != 0, ran.text
        return ran

    def init(self) -> None:
        """Make the project, and the stack in its backend."""
        for folder in (self.backend, self.root / "home", self.project):
            folder.mkdir(parents=True, exist_ok=True)
        (self.project / "__main__.py").write_text((self.program / "__main__.py").read_text())
        written = (_PROGRAM / "Pulumi.yaml").read_text()
        (self.project / "Pulumi.yaml").write_text(
            written.replace("../../../provider", f"{CHECKOUT}/provider")
        )
        command = ["-m", "tidepool.engine", "stack", "init", self.name]
        made = fork_server().run(command, self.project, self.env, timeout_s=60)
        assert made.returncode == 0, made

    # The world

    @property
    def slurm(self) -> Slurm:
        return Slurm(InMachine(self.data, self.name, "ctl"))

    def on(self, machine: str, *argv: str) -> str:
        """What a command on a machine says."""
        ended = kernel.execute(self.data, self.name, machine, argv, timeout_s=30)
        assert ended.code == 0, ended
        return ended.stdout.strip()

    def states(self) -> dict[str, str]:
        """The base state of each node and slot."""
        return {node.name: str(node.state.base) for node in self.slurm.nodes()}

    def job(self, node: str, seconds: int = 300) -> int:
        """Submit a job to a node, and wait until its script runs there: Slurm says so of one that is only told to."""
        words = ("sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", f"--nodelist={node}")
        job_id = int(self.on("ctl", *words, f"--wrap=sleep {seconds}"))
        eventually(lambda: self.job_state(job_id) == "RUNNING")
        eventually(lambda: f"slurmstepd: [{job_id}.batch]" in self.on(node, "ps", "-e", "-o", "args="))
        return job_id

    def job_state(self, job_id: int) -> str:
        return str(self.slurm.job(job_id)[0].state)

    def await_saved(self, job_id: int) -> None:
        """Wait until slurmctld has saved what it knows of a job, which it does some seconds late."""
        now = time.time()
        self.on("ctl", "scontrol", "update", f"jobid={job_id}", "comment=saved")
        file = self.data / self.name / "volumes" / "slurmctld" / "job_state"
        eventually(lambda: file.exists() and file.stat().st_mtime > now)

    def cancel(self, job_id: int) -> None:
        """Cancel a job, and wait until it has left its node."""
        self.slurm.cancel(job_id)
        eventually(self._is_quiet)

    def end_jobs(self) -> None:
        """Cancel all jobs, where there is a cluster, and wait until nodes are rid of them."""
        if kernel.read_machine(self.data, self.name, "ctl") is None:
            return
        for job in self.slurm.jobs():
            self.slurm.cancel(job.job_id)
        eventually(self._is_quiet)

    def _is_quiet(self) -> bool:
        nodes = self.slurm.nodes()
        return not any(node.cpus_alloc or NodeFlag.COMPLETING in node.state.flags for node in nodes)

    def pid_of(self, service: str, machine: str = "ctl") -> int:
        found = kernel.read_machine(self.data, self.name, machine)
        assert found is not None
        return next(each.pid for each in found.services if each.name == service)

    def remove(self) -> None:
        """Take away what a test that failed has left."""
        local_stacks.Stack(self.data, self.name, self.images).delete_all()

    def left(self) -> list[str]:
        """What is left of it but for its volumes that are kept; without the state of Pulumi."""
        return local_stacks.left_of(local_stacks.Stack(self.data, self.name, self.images))


def eventually(holds: Callable[[], bool], within_s: float = 30.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.05)
