"""Real machines with a real Slurm, made by `tidepool.infrastructures.local.kernel` alone; and a project whose outputs tell of them."""

from __future__ import annotations

import base64
import json
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import machines as bench
from tests.infrastructures.local.needs import lacking
from tests.infrastructures.local.stacks import Stack, left_of
from tidepool.cluster.boot import File, Folder, Service
from tidepool.infrastructures.local.kernel import (
    MachineSpec,
    NetworkSpec,
    create_machine,
    create_network,
    wait_ready,
)

ROOT = Path(__file__).parents[2]
STACK = "bench"
_PROGRAM = """
import json, pathlib
import pulumi

for name, value in json.loads(pathlib.Path("outputs.json").read_text()).items():
    pulumi.export(name, pulumi.Output.secret(value) if name == "sshKey" else value)
"""


def missing() -> str:
    """Why there can be no such cluster on this machine; empty where there can."""
    if lacks := lacking():
        return lacks
    programs = ("munged", "slurmctld", "slurmd", "srun", "sshd", "ssh", "ssh-keygen")
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    lost = [name for name in programs if shutil.which(name, path=path) is None]
    return (
        f"not installed: {', '.join(lost)} (munge, slurmctld, slurmd, slurm-client, openssh)" if lost else ""
    )


class RealCluster:
    """``ctl`` with slurmctld, ``login-1`` with sshd, ``std-2`` and ``std-3`` with slurmd."""

    def __init__(self, folder: Path) -> None:
        self.data, self.project = folder / "data", folder / "project"
        self.stack = Stack(self.data, STACK, folder / "image")
        self._key = base64.b64encode(secrets.token_bytes(128)).decode()
        self._ssh_key = folder / "key"
        self.project.mkdir()
        (self.project / "Pulumi.yaml").write_text("name: cluster\nruntime: python\n")
        (self.project / f"Pulumi.{STACK}.yaml").write_text("config: {}\n")
        (self.project / "__main__.py").write_text(_PROGRAM)

    def start(self) -> None:
        self.stack.image.mkdir()
        bench.make_image(self.stack.image)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._ssh_key)]
        subprocess.run(command, check=True, timeout=20)
        create_network(self.data, NetworkSpec(STACK, "net", "10.77.0.0/16"))
        for spec in (bench.controller(self.stack.image, self._key), self._login()):
            create_machine(self.data, spec)
            wait_ready(self.data, STACK, spec.name, 30)
        slots = "nodename=std-[2-5] state=FUTURE cpus=1 realmemory=500"
        assert self.stack.run("scontrol", "create", *slots.split(), on="ctl").code == 0
        for number in (2, 3):
            self.boot(number)
        self.export()
        self.until_idle(2)

    def boot(self, number: int) -> None:
        """Make a node's machine, or boot it again."""
        create_machine(self.data, replace(bench.node(number, self.stack.image, self._key), memory_mib=128))

    def end(self) -> None:
        self.stack.delete_all()
        assert left_of(self.stack) == []

    def export(self) -> None:
        """An `up` of a program without resources, which tells of the cluster."""
        outputs = {
            "cluster": "bench",
            "controller": self._connection("ctl"),
            "logins": [self._connection("login-1")],
            "fleets": {"std": "std-[2-3]"},
            "sshKey": self._ssh_key.read_text(),
        }
        (self.project / "outputs.json").write_text(json.dumps(outputs))
        from tidepool.cli.engine import engine_settings, prepare
        from tidepool.engine.command import main

        settings = engine_settings(self.environment, self.data)
        prepare(settings, self.data, {}, "")
        env = {**self.environment, **settings}
        with (self.project / "engine.log").open("w") as log:
            for words in (["stack", "init", STACK, "--no-select"], ["up", "--yes", "--stack", STACK]):
                code = main(words, self.project, env, log, log, interactive=False)
                assert code == 0, (self.project / "engine.log").read_text()

    def until_idle(self, nodes: int, timeout_s: float = 30) -> None:
        deadline = time.monotonic() + timeout_s
        while bench.idle_nodes(self.data) < nodes:
            assert time.monotonic() < deadline, self.stack.run("scontrol", "show", "nodes", on="ctl").stdout
            time.sleep(0.02)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "TIDEPOOL_DATA": str(self.data),
            "TIDEPOOL_ENGINE": "embedded",
            "PYTHONPATH": str(ROOT),
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.project),
        }

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "tidepool.cli", "-C", str(self.project), *words]

    def runs(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """The command in a process of its own."""
        return subprocess.run(
            self.command(*words),
            env=self.environment,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def says(self, *words: str) -> str:
        """What the command says, which must succeed."""
        done = self.runs(*words)
        assert done.returncode == 0, done
        return done.stdout

    def document(self, *words: str) -> Any:
        """The JSON that it says, whatever its exit code."""
        return json.loads(self.runs(*words, "--json").stdout)

    def _connection(self, machine: str) -> Mapping[str, str]:
        return {"kind": "local", "stack": STACK, "machine": machine}

    def _login(self) -> MachineSpec:
        key = Service(
            "host-key",
            ("/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/etc/ssh/ssh_host_ed25519_key"),
            once=True,
        )
        options = (
            "PermitRootLogin=prohibit-password",
            "AuthorizedKeysFile=/etc/ssh/authorized_keys.d/%u",
            "HostKey=/etc/ssh/ssh_host_ed25519_key",
            "PasswordAuthentication=no",
            "UsePAM=no",
            "StrictModes=no",
        )
        settings = [word for option in options for word in ("-o", option)]
        sshd = Service("sshd", ("/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", *settings), ready="tcp:22")
        public = self._ssh_key.with_suffix(".pub").read_text()
        return replace(
            bench.machine(9, self.stack.image),
            name="login-1",
            services=(key, sshd),
            files=(
                File("/etc/ssh/authorized_keys.d/root", public),
                # Without one, sshd takes accounts for locked.
                File("/etc/shadow", "root:*:20000:0:99999:7:::\n", "0600"),
            ),
            folders=(Folder("/etc/ssh"), Folder("/run/sshd")),
        )
