"""A cluster of the tests whose machines are elsewhere: `tidepool` runs in the network that they are in, and leads to them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tests.whole.cluster import LONG_S, ROOT, TIDEPOOL, Cluster
from tidepool.clients.slurm import Completed, Transport

#: What a job does for as long as its nodes are to stay, until `Elsewhere.tell`.
UNTIL_TOLD = "until test -e go-on; do sleep 1; done"


def example(name: str) -> dict[str, Any]:
    """The spec of the project's own stack, Pulumi.NAME.yaml."""
    spec: dict[str, Any] = yaml.safe_load((ROOT / f"Pulumi.{name}.yaml").read_text())["config"][
        "cluster:spec"
    ]
    return spec


@dataclass
class Elsewhere(Cluster):
    """A stack of another infrastructure."""

    #: A look is a `tidepool` of its own, a second of a processor that others wait for.
    pause_s: float = 3.0

    def way(self, machine: str) -> Transport:
        return _Exec(self, machine)

    def tell(self) -> None:
        """Have jobs end that wait for it."""
        assert self.on(self.login, "touch", "/home/researcher/go-on").exit_code == 0

    def refresh(self, timeout_s: float) -> str:
        """What the engine says of a refresh of the state, as a person calls it who has the environment of `tidepool env`."""
        engine = f"{sys.executable} -P -m tidepool.engine refresh --yes --skip-preview --stack {self.stack}"
        done = subprocess.run(
            [*self.through, "sh", "-ec", f'eval "$({TIDEPOOL} -s {self.stack} env)"; {engine}'],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout


@dataclass(frozen=True, slots=True)
class _Exec:
    """Runs commands as a person does: by `tidepool exec`."""

    cluster: Elsewhere
    machine: str

    @property
    def where(self) -> str:
        return f"on {self.machine} of stack {self.cluster.stack}"

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        # Beside the command, `tidepool` itself starts, and may log in to a machine that is emulated.
        done = self.cluster.run("exec", self.machine, "--", *argv, timeout_s=timeout_s + LONG_S, stdin=stdin)
        return Completed(done.returncode, done.stdout, done.stderr)

    def close(self) -> None:
        """Nothing is kept between commands."""
