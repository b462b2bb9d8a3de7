"""`min_nodes` of the fleets, which asks for nodes as policies do."""

from __future__ import annotations

from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.decide.policies.wants import Floor, Wants


def least(spec: ClusterSpec) -> Wants:
    """So many of each fleet, always."""
    return Wants(
        floors=tuple(
            Floor(fleet.name, fleet.min_nodes, f"min_nodes is {fleet.min_nodes}", is_for_ever=True)
            for fleet in spec.fleets
            if fleet.min_nodes
        )
    )
