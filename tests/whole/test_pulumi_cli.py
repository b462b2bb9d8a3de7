"""The Pulumi CLI, built here or installed, brings a cluster up, and takes turns with the embedded engine on its stack."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from tests import versions
from tests.engine.scenarios.actors import LEFT_OUT
from tests.infrastructures.local.stacks import Stack, left_of
from tests.whole.cluster import Cluster
from tidepool.clients.slurm import JobState
from tidepool.engine.choice import find_cli
from tidepool.toolchain import PULUMI

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_cli(os.environ) is None, reason=LEFT_OUT),
    pytest.mark.runs("local", versions.slurm(), versions.built(PULUMI)),
]


def test_both_take_turns_on_a_cluster(images: Path, tmp_path: Path) -> None:
    cluster = Cluster.make(tmp_path, images, f"t{uuid.uuid4().hex[:8]}")

    def by(engine: str, *words: str) -> str:
        cluster.write_spec()
        # The CLI writes logs there; another test looks whether any are left in the home of all.
        done = cluster.run(*words, TIDEPOOL_ENGINE=engine, PULUMI_HOME=str(tmp_path / "pulumi"))
        assert done.returncode == 0, f"{engine}: {words}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    try:
        by("pulumi", "up", "--yes")
        assert cluster.idle() == ["cpu-1", "cpu-2"]
        cluster.until_job(cluster.submit("hostname"), JobState.COMPLETED)
        cluster.spec["fleets"][0]["min_nodes"] = 3
        by("embedded", "up", "--yes")
        assert cluster.idle() == ["cpu-1", "cpu-2", "cpu-3"]
        assert "unchanged" in by("pulumi", "preview")
        by("pulumi", "up", "--yes", "--refresh")
        assert cluster.idle() == ["cpu-1", "cpu-2", "cpu-3"]
        by("embedded", "preview")
    finally:
        by("pulumi", "down", "--yes", "--force", "--purge")
    assert left_of(Stack(cluster.data, cluster.stack, cluster.images)) == []
