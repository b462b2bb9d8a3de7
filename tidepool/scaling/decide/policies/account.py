"""`account`: a cap of the nodes that the jobs of one of Slurm's accounts may have."""

from __future__ import annotations

from datetime import datetime

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.scaling import Account
from tidepool.scaling.decide.policies.wants import Wants


def account(policy: Account, _at: datetime) -> Wants:
    """No more than so many."""
    return Wants(caps=FrozenDict({policy.account: policy.max_nodes}))
