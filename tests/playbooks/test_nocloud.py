"""The reader of seeds in images without cloud-init: it does what cloud-init does with Tidepool's own, and refuses others."""

from __future__ import annotations

import json
import os
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.hosts import PLAYBOOKS
from tidepool.cluster.boot import cloud_config

READER = PLAYBOOKS / "roles/boot/files/nocloud"


class Machine:
    """What the reader says is done, on paths in ``folder``."""

    def __init__(self, folder: Path) -> None:
        loader = SourceFileLoader("nocloud", str(READER))
        made = spec_from_loader("nocloud", loader)
        assert made is not None
        reader: Any = module_from_spec(made)
        loader.exec_module(reader)
        self.boots = reader.main
        self.ran: list[list[str]] = []
        self.seed, self.root = folder / "seed", folder / "root"
        (self.root / "etc").mkdir(parents=True)
        serial = folder / "serial"
        serial.write_text("ds=nocloud;h=cpu-1\n")
        reader.SERIAL, reader.SEED, reader.DONE = serial, self.seed, f"{self.root}/done"
        reader.NETWORK = f"{self.root}/network.d/nocloud.conf"
        reader.HOSTNAME, reader.KERNEL_HOSTNAME = f"{self.root}/etc/hostname", f"{self.root}/name"
        reader.disk = lambda: "/dev/sr0"
        reader.run = self._run

    def boot(self, user_data: str, instance: str = "1") -> list[list[str]]:
        """Boot with that seed; gives the commands that it has run."""
        self.ran.clear()
        self.seed.mkdir(exist_ok=True)
        (self.seed / "user-data").write_text(user_data)
        (self.seed / "meta-data").write_text(f"instance-id: {instance}\n")
        self.boots()
        return [command for command in self.ran if command[0] not in ("mount", "umount")]

    def _run(self, command: list[str]) -> int:
        self.ran.append(list(map(str, command)))
        return 0


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def said(machine: Machine, content: str = "c8Ok") -> str:
    owner = f"{os.getuid()}:{os.getgid()}"
    key = {
        "path": f"{machine.root}/etc/munge/key",
        "content": content,
        "encoding": "b64",
        "permissions": "0400",
        "owner": owner,
    }
    plain = {
        "path": f"{machine.root}/etc/hosts",
        "content": "10.0.0.1 ctl é\n",
        "permissions": "0644",
        "owner": owner,
    }
    return cloud_config(
        {"bootcmd": [["first"]], "write_files": [key, plain], "runcmd": [["then", "this"]]}, indent=1
    )


def test_a_machine_has_its_name_its_files_and_runs_its_commands_in_their_order(machine: Machine) -> None:
    if os.getuid() != 0:
        pytest.skip("files are given to owners, which needs root")
    assert machine.boot(said(machine)) == [["first"], ["then", "this"]]
    key, hosts = machine.root / "etc/munge/key", machine.root / "etc/hosts"
    assert (key.read_bytes(), key.stat().st_mode & 0o7777) == (b"s\xc3\xa4", 0o400)
    assert (hosts.read_text(), hosts.stat().st_mode & 0o7777) == ("10.0.0.1 ctl é\n", 0o644)
    assert (machine.root / "etc/hostname").read_text() == "cpu-1\n"
    assert (machine.root / "name").read_text() == "cpu-1"
    assert "UseHostname=no" in (machine.root / "network.d/nocloud.conf").read_text()


def test_a_seed_is_done_once_and_another_one_again(machine: Machine) -> None:
    if os.getuid() != 0:
        pytest.skip("files are given to owners, which needs root")
    machine.boot(said(machine))
    (machine.root / "etc/hosts").write_text("changed since\n")
    assert machine.boot(said(machine)) == [["first"]]
    assert (machine.root / "etc/hosts").read_text() == "changed since\n"
    assert machine.boot(said(machine), "2") == [["first"], ["then", "this"]]
    assert (machine.root / "etc/hosts").read_text() != "changed since\n"


@pytest.mark.parametrize("user_data", ["#cloud-config\npackages: [htop]\n", "#!/bin/sh\n", json.dumps({})])
def test_a_seed_that_is_not_tidepools_is_refused_and_nothing_is_done(
    machine: Machine, user_data: str
) -> None:
    with pytest.raises(SystemExit, match="take an image that has cloud-init"):
        machine.boot(user_data)
    assert not (machine.root / "done").exists()
