"""The roles, without an image: that they can be read, and that images' builders and people find the same ones."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.images.conftest import PLAYBOOKS
from tidepool.images.machine import ansible_playbook


def test_the_roles_for_live_machines_are_fit_to_run(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "ANSIBLE_HOME": str(tmp_path)}
    done = subprocess.run(
        [ansible_playbook(), "--syntax-check", "--inventory", "slurm_nodes,slurm_controllers,", "site.yaml"],
        cwd=PLAYBOOKS,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("role", sorted(path.name for path in (PLAYBOOKS / "roles").iterdir()))
def test_a_role_is_told_of_in_the_readme_and_every_task_has_a_name(role: str) -> None:
    assert f"| `{role}` |" in (PLAYBOOKS / "README.md").read_text()
    for path in (PLAYBOOKS / "roles" / role / "tasks").iterdir():
        text = path.read_text()
        assert len(re.findall(r"(?m)^- name: ", text)) == len(re.findall(r"(?m)^- ", text)) > 0
