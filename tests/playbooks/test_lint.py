"""The roles, as ansible-lint reads them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.playbooks.hosts import PLAYBOOKS

pytestmark = pytest.mark.slow


def test_ansible_lint_finds_nothing(tmp_path: Path) -> None:
    beside = Path(sys.executable).parent
    path = f"{beside}:{os.environ['PATH']}"
    lint = shutil.which("ansible-lint", path=path)
    if lint is None:
        pytest.skip("ansible-lint is not installed: scripts/setup installs it")
    done = subprocess.run(
        [lint, "--nocolor"],
        cwd=PLAYBOOKS,
        # It calls ansible-playbook, which is beside it.
        env={
            "PATH": f"{Path(lint).parent}:{path}",
            "HOME": str(tmp_path),
            "ANSIBLE_HOME": str(tmp_path),
            "LC_ALL": "C.UTF-8",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"Passed: 0 failure\(s\), 0 warning\(s\) in (\d+) files", done.stderr)
    assert passed, done.stderr
    # Not for want of something to read: each role's own files, and the roles as a whole beside them.
    roles = [folder for folder in PLAYBOOKS.glob("roles/*") if folder.is_dir()]
    files = [*PLAYBOOKS.glob("roles/*/**/*.yaml"), *PLAYBOOKS.glob("roles/*/templates/*")]
    assert len(roles) > 10
    assert int(passed[1]) >= len(files) + len(roles)
