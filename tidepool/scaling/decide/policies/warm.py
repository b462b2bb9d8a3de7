"""`warm`: idle nodes that wait for jobs."""

from __future__ import annotations

from datetime import datetime

from tidepool.cluster.scaling import Warm
from tidepool.scaling.decide.policies.wants import Floor, Wants


def warm(policy: Warm, _at: datetime) -> Wants:
    """So many beside those that jobs have."""
    return Wants(floors=(Floor(policy.fleet, policy.nodes, f"{policy.nodes} are kept warm", is_spare=True),))
