"""A cluster on libvirt as a user's program registers it, run against mocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.components import cluster_graph
from tidepool.cluster.spec import ClusterSpec
from tidepool.testing import Graph

pytest.importorskip("pulumi_libvirt", reason="pulumi-libvirt is not installed: scripts/setup installs it")

DOMAIN, VOLUME = "libvirt:index/domain:Domain", "libvirt:index/volume:Volume"
NETWORK, POOL = "libvirt:index/network:Network", "libvirt:index/pool:Pool"
SEED, PROVIDER = "libvirt:index/cloudInitDisk:CloudInitDisk", "pulumi:providers:libvirt"
HOST = "tidepool:infrastructure:Preflight"
ACCESS, FILE, MACHINE, connection = (
    cluster_graph.ACCESS,
    cluster_graph.FILE,
    cluster_graph.MACHINE,
    cluster_graph.connection,
)


def registered(spec: ClusterSpec, nodes: Mapping[str, str] | None = None, **how: Any) -> Graph:
    """As `cluster_graph.registered`, which knows all that libvirt has."""
    return cluster_graph.registered(spec, nodes, **how)
