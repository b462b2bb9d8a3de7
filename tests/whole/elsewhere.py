"""A cluster of the tests whose machines are elsewhere: `tidepool` runs in the network that they are in, and leads to them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import yaml

from tests.net_namespace import enter
from tests.whole.cluster import LONG_S, ROOT, TIDEPOOL, Cluster
from tidepool.cli.cluster import parse_outputs
from tidepool.clients.slurm import Completed, Transport
from tidepool.cluster.names import CONTROLLER_HOST, FILE_SERVER_HOST
from tidepool.infrastructures.connection import transport

#: What a job does for as long as its nodes are to stay, until `Elsewhere.tell`.
UNTIL_TOLD = "until test -e go-on; do sleep 1; done"
#: Takes more memory than a node of these tests has.
TAKES_MUCH = "exec python3 -c 'bytearray(400 << 20)'"


def example(name: str) -> dict[str, Any]:
    """The spec of the project's own stack, Pulumi.NAME.yaml."""
    spec: dict[str, Any] = yaml.safe_load((ROOT / f"Pulumi.{name}.yaml").read_text())["config"][
        "cluster:spec"
    ]
    return spec


@dataclass
class Elsewhere(Cluster):
    """A stack of another infrastructure."""

    #: Slurm's commands take an emulated machine most of a second.
    pause_s: float = 2.0
    _ways: dict[str, _Inside] = field(default_factory=dict, repr=False)

    def run(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        if arguments[0] == "down":
            for way in self._ways.values():
                way.let_go()
            self._ways.clear()
        return super().run(*arguments, **more)

    def way(self, machine: str) -> Transport:
        """The way to a machine: of the cluster's own over one connection of SSH, where they have that, else by `tidepool exec`.

        That is a second of a processor at each look, which others wait for.
        """
        stays = machine in {CONTROLLER_HOST, FILE_SERVER_HOST} or machine.startswith("login-")
        if stays and machine not in self._ways:
            connection = self._own().get(machine, {})
            if connection.get("kind") in {"ssh", "host"}:
                self._ways[machine] = _Inside(self.through, transport(connection, self.data))
        return self._ways.get(machine) or _Exec(self, machine)

    def _own(self) -> Mapping[str, Mapping[str, Any]]:
        done = self._engine("stack output --json", LONG_S)
        outputs = json.loads(done.stdout) if done.returncode == 0 else {}
        return parse_outputs(self.stack, outputs).machines if outputs.get("controller") else {}

    def tell(self) -> None:
        """Have jobs end that wait for it."""
        assert self.on(self.login, "touch", "/home/researcher/go-on").exit_code == 0

    def refresh(self, timeout_s: float) -> str:
        """What the engine says of a refresh of the state, as a person calls it who has the environment of `tidepool env`."""
        done = self._engine("refresh --yes --skip-preview", timeout_s)
        assert done.returncode == 0, done
        return done.stdout

    def _engine(self, verb: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        engine = f"{sys.executable} -P -m tidepool.engine {verb} --stack {self.stack}"
        return subprocess.run(
            [*self.through, "sh", "-ec", f'eval "$({TIDEPOOL} -s {self.stack} env)"; {engine}'],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


class _Inside:
    """Runs commands over ``way``, whose connection is made in the network that the command ``through`` leads to."""

    def __init__(self, through: Sequence[str], way: Transport) -> None:
        (namespace,) = (word.removeprefix("--net=") for word in through if word.startswith("--net="))
        self._way = way
        self._thread = ThreadPoolExecutor(1, initializer=partial(enter, namespace))

    @property
    def where(self) -> str:
        return self._way.where

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        # The time is for the command: an emulated machine takes some for a connection, too.
        return self._thread.submit(self._way.run, argv, stdin=stdin, timeout_s=timeout_s + LONG_S).result()

    def close(self) -> None:
        """The connection is kept between commands, until it is let go."""

    def let_go(self) -> None:
        self._thread.shutdown()
        self._way.close()


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
