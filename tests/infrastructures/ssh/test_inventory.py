"""Inventories as Ansible reads them: the same hosts, groups and variables."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tidepool.images.errors import MissingTool
from tidepool.images.machine import ansible_playbook
from tidepool.infrastructures.ssh.inventory import InventoryError, read_inventory

INI = """\
# a site's
lone ansible_host=192.0.2.9

[rack1]
node[01:03] ansible_port=2222   # three
; and one
[rack2]
gamma ansible_user=root
[all:vars]
ansible_user=admin
[racks:children]
rack1
rack2
[racks:vars]
ansible_ssh_private_key_file=/keys/id
"""
YAML = """\
all:
  hosts:
    lone: {ansible_host: 192.0.2.9}
  vars: {ansible_user: admin}
  children:
    racks:
      vars: {ansible_ssh_private_key_file: /keys/id}
      children:
        rack1:
          hosts:
            node[01:03]: {ansible_port: 2222}
        rack2:
          hosts:
            gamma: {ansible_user: root}
"""


@pytest.mark.parametrize("text", [INI, YAML], ids=["ini", "yaml"])
def test_hosts_groups_and_variables_are_read(text: str) -> None:
    found = read_inventory(text)
    assert list(found.hosts) == ["lone", "node01", "node02", "node03", "gamma"]
    assert {key: str(value) for key, value in found.hosts["node02"].items()} == {
        "port": "2222",
        "user": "admin",
        "key": "/keys/id",
    }
    assert found.hosts["gamma"]["user"] == "root"
    assert found.hosts["lone"] == {"address": "192.0.2.9", "user": "admin"}
    assert found.groups["rack1"] == ("node01", "node02", "node03")
    assert found.groups["racks"] == ("node01", "node02", "node03", "gamma")


@pytest.mark.parametrize("text", [INI, YAML], ids=["ini", "yaml"])
def test_ansible_reads_the_same(tmp_path: Path, text: str) -> None:
    try:
        program = ansible_playbook().with_name("ansible-inventory")
    except MissingTool as error:
        pytest.skip(str(error))
    file = tmp_path / ("hosts.yaml" if text is YAML else "hosts")
    file.write_text(text)
    done = subprocess.run(
        [program, "--inventory", file, "--list"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)["_meta"]["hostvars"]
    names = {"address": "ansible_host", "port": "ansible_port", "user": "ansible_user"}
    names["key"] = "ansible_ssh_private_key_file"
    mine = {
        host: {names[key]: str(value) for key, value in each.items()}
        for host, each in read_inventory(text).hosts.items()
    }
    assert mine == {host: {key: str(value) for key, value in each.items()} for host, each in told.items()}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no host"),
        ("[rack1\nalpha\n", "is no heading"),
        ("[rack1]\nalpha port 22\n", "is no variable"),
        ("[racks:children]\nrack1\n[other]\nalpha\n", "is not there"),
        ("[a:children]\nb\n[b:children]\na\n[c]\nalpha\n", "within itself"),
        ("all:\n  machines: {}\n", "known are hosts, children, vars"),
        ("all: [alpha]\n", "a map is wanted"),
        ("all:\n  hosts: {alpha\n", "no YAML"),
    ],
)
def test_what_is_no_inventory_is_told(text: str, words: str) -> None:
    with pytest.raises(InventoryError, match=words):
        read_inventory(text)
