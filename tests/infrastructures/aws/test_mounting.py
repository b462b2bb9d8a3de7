"""How a machine of EC2 comes to its volumes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tidepool.infrastructures.aws.graph import mounting


@pytest.mark.parametrize(
    ("source", "command"),
    [
        ("fs-1.efs.eu-central-1.amazonaws.com:/", "mount -t nfs4 -o rw,nfsvers=4.1,"),
        ("fs-1.fsx.eu-central-1.amazonaws.com@tcp:/abcde", "mount -t lustre -o rw,flock,noatime "),
        ("nas:/export/home", "mount -t nfs -o rw,hard "),
    ],
)
def test_file_systems_are_waited_for(source: str, command: str) -> None:
    (line,) = mounting(source, "/home", "rw")
    assert line.startswith(f"mountpoint -q /home || until {command}")
    assert line.endswith(f"{source} /home; do sleep 2; done")


@pytest.mark.parametrize(("blkid", "made"), [(0, False), (2, True), (4, False), (8, False)])
def test_a_disk_is_given_a_file_system_only_where_it_is_empty(tmp_path: Path, blkid: int, made: bool) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    programs = {
        "blkid": f"exit {blkid}",
        "mkfs.ext4": f"touch {tmp_path}/made",
        "mount": f"touch {tmp_path}/mounted",
        "mountpoint": "exit 1",
    }
    for name, does in programs.items():
        (tools / name).write_text(f"#!/bin/sh\n{does}\n")
        (tools / name).chmod(0o755)
    lines = mounting("vol-0123", "/var/lib/mysql", "rw")
    assert lines[0].startswith("until test -b /dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123;")
    script = "set -eu\n" + "\n".join(lines[1:])
    path = f"{tools}:{os.environ['PATH']}"
    subprocess.run(["/bin/sh", "-c", script], check=True, env={"PATH": path})
    assert (tmp_path / "made").exists() == made
    assert (tmp_path / "mounted").exists()
