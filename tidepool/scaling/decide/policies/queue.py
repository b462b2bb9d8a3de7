"""`queue`: nodes for all that waits, at once."""

from __future__ import annotations

from datetime import datetime

from tidepool.cluster.scaling import Queue
from tidepool.scaling.decide.policies.wants import Wants


def queue(_policy: Queue, _at: datetime) -> Wants:
    """Jobs are served."""
    return Wants(serves_jobs=True)
