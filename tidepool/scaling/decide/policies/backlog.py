"""`backlog`: as few nodes as have done what waits within some minutes."""

from __future__ import annotations

from datetime import datetime

from tidepool.cluster.scaling import Backlog
from tidepool.scaling.decide.policies.wants import Wants


def backlog(policy: Backlog, _at: datetime) -> Wants:
    """Jobs are served, one after another on a node where their time limits let them be done in time."""
    return Wants(serves_jobs=True, horizon_s=policy.minutes * 60)
