"""The client of Lustre for real: the line that the role writes mounts a file system, where a kernel has its client."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

import pytest


def test_a_file_system_is_mounted_by_the_role_s_options(tmp_path: Path) -> None:
    if "lustre" not in Path("/proc/filesystems").read_text().split():
        pytest.skip("this kernel has no client of Lustre")
    source = os.environ.get("TIDEPOOL_LUSTRE") or pytest.skip(
        "TIDEPOOL_LUSTRE names no file system of Lustre"
    )
    role = Path(__file__).parents[2] / "playbooks/roles/lustre_client/defaults/main.yaml"
    assert "(rw,flock,_netdev)" in role.read_text()
    subprocess.run(["mount", "-t", "lustre", "-o", "rw,flock,_netdev", source, str(tmp_path)], check=True)
    try:
        file = tmp_path / uuid.uuid4().hex
        file.write_text("written")
        locked = subprocess.run(
            ["flock", "--nonblock", str(file), "cat", str(file)], capture_output=True, check=True
        )
        file.unlink()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert locked.stdout == b"written"
