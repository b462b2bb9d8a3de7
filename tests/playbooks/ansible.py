"""Ansible, as a person in the folder `playbooks` runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.playbooks.hosts import PLAYBOOKS
from tidepool.images.machine import ansible_playbook


@dataclass(frozen=True)
class Ran:
    """What a play said, and by host how many tasks changed something."""

    said: str
    changed: Mapping[str, int]


def run(
    folder: Path, playbook: Path, inventory: Mapping[str, Any], variables: Mapping[str, Any], *more: str
) -> Ran:
    """Run a playbook to its end, which is a good one."""
    folder.mkdir(exist_ok=True)
    (folder / "inventory.json").write_text(json.dumps(inventory))
    (folder / "variables.json").write_text(json.dumps(variables))
    command = [str(ansible_playbook()), "--inventory", str(folder / "inventory.json"), str(playbook)]
    command += ["--extra-vars", f"@{folder / 'variables.json'}", *more]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_TIMEOUT": "60",
    }
    done = subprocess.run(
        command, cwd=PLAYBOOKS, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    recap = done.stdout.rpartition("PLAY RECAP")[2]
    return Ran(done.stdout, {m[1]: int(m[2]) for m in re.finditer(r"(?m)^(\S+)\s+: .*changed=(\d+)", recap)})
