"""The roles that machines of converged pools can have. Without models, for those who read none."""

from __future__ import annotations

from typing import Final, Literal

Role = Literal["slurm", "kubernetes"]
"""What a machine of a pool is at a time: a node of Slurm's, or one of Kubernetes'. Never both."""
ROLES: Final[tuple[Role, ...]] = ("slurm", "kubernetes")

AtDeadline = Literal["stop", "force"]
"""What becomes of a graceful conversion whose work does not end in time: it is given up, or goes on by force."""
