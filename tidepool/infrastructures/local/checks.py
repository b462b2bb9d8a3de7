"""Lacks of this machine for what a spec asks of its network; `tidepool doctor` looks at all else in any case."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tidepool.cluster.names import CLUSTER_NETWORK
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.finding import Finding
from tidepool.infrastructures.local.kernel import Rules, uplink_lacks
from tidepool.infrastructures.local.kernel.layout import network_paths


def checks_of(spec: ClusterSpec, stack: str, data: Path) -> Iterator[Finding]:
    """Find what keeps this machine from holding the cluster to its firewall, if it has one."""
    rules = Rules(spec.flows, spec.forwards, spec.peers)
    lacks = list(uplink_lacks(network_paths(data, stack, CLUSTER_NETWORK), rules))
    for lack in lacks:
        yield Finding("firewall", "lacks", lack.what, lack.remedy)
    if (rules.egress or rules.ingress) and not lacks:
        yield Finding("firewall", "well", "nft is there, and this machine forwards")
