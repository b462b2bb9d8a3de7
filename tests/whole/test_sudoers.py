"""Two people of one machine, with real sudo and a real cluster: who administrates, and who looks and drains."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.cluster import TIDEPOOL, Cluster
from tidepool.cli.sudoers import RULES, SCRIPT

pytestmark = pytest.mark.slow

ADA, BEN, EVE = "tp-ada", "tp-ben", "tp-eve"


class Machine:
    """This machine, with an /etc and a /usr/local/sbin of the test's own: nobody else's users and rules are touched."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree("/etc", folder / "etc", symlinks=True)
        (folder / "sbin").mkdir()
        mounts = f"mount --bind {folder}/etc /etc && mount --bind {folder}/sbin {SCRIPT.parent} && echo && exec sleep 3600"
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", mounts], stdout=subprocess.PIPE, text=True
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "\n"
        self.inside = ("nsenter", "--mount", "--target", str(self._holder.pid), "--wd=/tmp")

    def run(self, *command: str, who: str = "root", **env: str) -> subprocess.CompletedProcess[str]:
        as_who = () if who == "root" else ("runuser", "-u", who, "--")
        return subprocess.run(
            [*self.inside, *as_who, *command],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=180,
            check=False,
        )

    def sudo(self, who: str, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.run("sudo", "--non-interactive", *command, who=who, **env)

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    found = Machine(tmp_path)
    yield found
    found.close()


def test_administrators_change_and_operators_look_and_drain(cluster: Cluster, machine: Machine) -> None:
    def sudoers(*more: str) -> subprocess.CompletedProcess[str]:
        return cluster.run(
            "sudoers", "--nopasswd", *more, through=(*machine.inside, f"--wd={cluster.folder}")
        )

    refused = sudoers()
    assert refused.returncode == 2
    for group in ("tidepool-admins", "tidepool-operators"):
        assert f"there is no group {group}; make it: groupadd" in refused.stderr
    assert not machine.run("ls", str(SCRIPT)).stdout
    for group, person in (("tidepool-admins", ADA), ("tidepool-operators", BEN)):
        assert machine.run("groupadd", "--system", group).returncode == 0
        assert machine.run("useradd", "--no-create-home", "--groups", group, person).returncode == 0
    assert machine.run("useradd", "--no-create-home", EVE).returncode == 0
    written = sudoers()
    assert written.returncode == 0, written.stderr
    assert machine.run("visudo", "--check").returncode == 0
    assert machine.run("stat", "-c", "%a %U", str(RULES), str(SCRIPT)).stdout == "440 root\n755 root\n"

    # The operator looks and drains, and the state says who did.
    operator = SCRIPT.name
    looked = machine.sudo(BEN, operator, "--stack", cluster.stack, "status", "--json")
    assert looked.returncode == 0, looked.stderr
    assert "cpu-2" in json.dumps(json.loads(looked.stdout))
    drained = machine.sudo(BEN, operator, "-s", cluster.stack, "drain", "cpu-2")
    assert drained.returncode == 0, drained.stderr
    assert f"by {BEN} with tidepool" in drained.stdout
    assert machine.sudo(BEN, operator, "-s", cluster.stack, "resume", "cpu-2").returncode == 0

    # All else is refused, with who may.
    for words in (
        ["up", "--yes"],
        ["down", "--yes", "--force"],
        ["exec", "cpu-1", "--", "id"],
        ["ssh", "cpu-1"],
        ["sudoers"],
    ):
        said = machine.sudo(BEN, operator, *words)
        assert said.returncode == 2, said.stdout
        assert f"`{words[0]}`" in said.stderr
        assert f"who may: the group tidepool-admins ({ADA}), with `sudo tidepool`" in said.stderr
        assert not said.stdout
    assert len(cluster.nodes()) == 2

    # Nothing of the caller's is read: no folder, no variable, no file to write.
    trap = Path("/tmp") / f"trap-{cluster.stack}"
    machine.run("mkdir", str(trap), who=BEN)
    try:
        (trap / "sitecustomize.py").write_text("open('/tmp/trapped-by-python', 'w')")
        variables = {
            "PYTHONPATH": str(trap),
            "PULUMI_BACKEND_URL": f"file://{trap}",
            "TIDEPOOL_DATA": str(trap),
        }
        again = machine.sudo(BEN, operator, "-s", cluster.stack, "status", "--json", **variables)
        assert again.returncode == 0, again.stderr
        assert not Path("/tmp/trapped-by-python").exists()
        for words in (
            ["status", "-C", str(trap)],
            ["pool", "report", "--csv", str(trap / "x")],
            ["plan", "--preview"],
        ):
            said = machine.sudo(BEN, operator, *words)
            assert said.returncode == 2, said.stdout
        assert machine.sudo(BEN, f"TIDEPOOL_DATA={trap}", operator, "status").returncode == 1
        assert not (trap / "x").exists()
    finally:
        shutil.rmtree(trap)

    # And sudo itself keeps the rest apart.
    for who, command in ((BEN, str(TIDEPOOL)), (EVE, str(TIDEPOOL)), (EVE, operator)):
        said = machine.sudo(who, command, "status")
        assert said.returncode == 1
        assert "sudo:" in said.stderr
    assert machine.sudo(ADA, str(TIDEPOOL), "--help").returncode == 0
