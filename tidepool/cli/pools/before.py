"""What is asked before an `up` changes pools: would pods be lost, and can the Kubernetes that they serve be used?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidepool.cli.errors import NOT_THERE, USAGE, Failure
from tidepool.cli.job_guard import leaving
from tidepool.cli.pools.checks import foreign_nodes, kubernetes_mistakes
from tidepool.cli.pools.looking import kubernetes_seen
from tidepool.cli.pools.losing import refuse_lost_pods
from tidepool.cli.pools.place import pools_of
from tidepool.cli.stack import Stack
from tidepool.cluster.spec import ClusterSpec


def look_at_pools(stack: Stack, outputs: Mapping[str, Any], spec: ClusterSpec) -> None:
    """Look at Kubernetes where ``spec`` has pools, or the cluster has.

    One of the cluster's own is asked only about pods that would be lost: what it lacks besides, the `up` mends.

    Raises:
        Failure: pods would be lost; or the Kubernetes of a kubeconfig does not answer, does not allow what is needed, or
            has nodes of the machines' names already: all of it at once.
    """
    if outputs.get("pools"):
        from tidepool.cli.cluster import parse_outputs

        gone = [
            name for names in leaving(parse_outputs(stack.name, outputs), spec).values() for name in names
        ]
        refuse_lost_pods(stack, pools_of(stack.name, outputs), gone)
    if spec.kubernetes is None or spec.kubernetes.kubeconfig is None:
        return
    seen, _ = kubernetes_seen(stack, {"kubeconfig": spec.kubernetes.kubeconfig}, with_rights=True)
    names = [slot.node_name for pool in spec.pools for slot in pool.slots()]
    wrong = [*kubernetes_mistakes(seen), *foreign_nodes(names, stack.name, seen.nodes)]
    if wrong:
        where = f"{stack.file}, kubernetes.kubeconfig {spec.kubernetes.kubeconfig}:"
        raise Failure(
            "\n".join([where, *(f"  {each}" for each in wrong)]),
            remedy="nothing was changed",
            code=NOT_THERE if seen.failure else USAGE,
        )
