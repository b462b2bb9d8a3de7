"""A cluster on Nomad as a user's program registers it, run against mocks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pulumi.runtime.mocks import MockResourceArgs

from tests.components import cluster_graph
from tests.components.cluster_graph import Outputs, connection
from tidepool.cluster.spec import ClusterSpec
from tidepool.testing import Graph

pytest.importorskip("pulumi_nomad", reason="pulumi-nomad is not installed: scripts/setup installs it")

JOB, VARIABLE = "nomad:index/job:Job", "nomad:index/variable:Variable"
ROLL_OUT = "tidepool:nomad:RollOut"
PROVIDER = "pulumi:providers:nomad"
CLUSTER, MACHINE = "tidepool:infrastructure:Preflight", "tidepool:nomad:Machine"
ACCESS, ANSWERS = cluster_graph.ACCESS, cluster_graph.MACHINE


def registered(spec: ClusterSpec, nodes: Mapping[str, str] | None = None, **how: Any) -> Graph:
    """As `cluster_graph.registered`, on Nomad."""
    return cluster_graph.registered(spec, nodes, outputs=_outputs, **how)


def _outputs(args: MockResourceArgs) -> Outputs:
    return {
        MACHINE: {"host": f"host-of-{args.name}"},
        ANSWERS: {"connection": connection(args.inputs.get("address", ""), port=2222)},
    }


def job(graph: Graph, name: str) -> dict[str, Any]:
    """The specification of a job, as Nomad takes it."""
    told: dict[str, Any] = json.loads(graph[f"{JOB} {name}"].inputs["jobspec"])["Job"]
    return told
