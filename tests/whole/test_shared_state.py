"""A cluster whose state and passphrase are in a bucket of a real S3 server: brought up, scaled, looked at and taken down."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.objectstore import ObjectStore, objectstore  # noqa: F401 - a fixture
from tests.toolchain import needs_objectstore
from tests.whole.cluster import Cluster

pytestmark = [pytest.mark.slow, needs_objectstore]


@dataclass
class SharedCluster(Cluster):
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **self.settings}


def test_a_cluster_with_its_state_in_a_bucket(
    images: Path,
    tmp_path: Path,
    objectstore: ObjectStore,  # noqa: F811
) -> None:
    cluster = SharedCluster.make(tmp_path, images, f"t{uuid.uuid4().hex[:8]}")
    cluster.settings = {
        **objectstore.environment,
        "PULUMI_BACKEND_URL": objectstore.url("state"),
        "TIDEPOOL_PASSPHRASE_URL": objectstore.url("secrets"),
    }
    kept = objectstore.folder / "buckets" / "tests"
    stacks = kept / "state" / ".pulumi" / "stacks" / "cluster"
    try:
        cluster.up()
        passphrase = (kept / "secrets" / "passphrase").read_text()
        assert (cluster.data / "passphrase-shared").read_text() == passphrase
        assert not (cluster.data / "state").exists()
        state = (stacks / f"{cluster.stack}.json").read_text()
        assert passphrase.strip() not in state
        assert "PRIVATE KEY" not in state
        cluster.tidepool("scale", "--once")
        assert len(cluster.nodes()) == 2
        changes = json.loads(cluster.tidepool("up", "--yes", "--json"))["changes"]
        assert set(changes) == {"same"}
    finally:
        cluster.tidepool("down", "--yes", "--force", "--purge")
    assert not (stacks / f"{cluster.stack}.json").exists()
    assert not [*(kept / "state" / ".pulumi" / "locks").rglob("*.json")]
