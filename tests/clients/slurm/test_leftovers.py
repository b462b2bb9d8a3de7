"""A real Slurm of the tests leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.slurm.real import RealSlurm, missing
from tests.clients.slurm.world import RealWorld, up
from tidepool.clients.slurm import Here, Slurm


@pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")
def test_no_process_and_no_mount_is_left(tmp_path: Path) -> None:
    real = RealSlurm(tmp_path)
    slurm = Slurm(Here(real.environment))
    up(RealWorld(real, slurm, slurm), 1)
    assert len(_processes_of(tmp_path)) >= 3
    real.close()
    assert _processes_of(tmp_path) == []
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def _processes_of(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found
