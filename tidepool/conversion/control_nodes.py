"""Checks for a machine that runs a part of a control plane, before it leaves that. Pure.

A controller of Slurm goes when another one has taken over. A member of Kubernetes' control plane keeps its state by a
majority of votes (etcd): it goes where the others that are well are still a majority of those that then are.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidepool.cluster.roles import Role


@dataclass(frozen=True, slots=True)
class Standing:
    """The control plane of ``role``'s side: the machines it runs on, those that are well, and who is in charge.

    ``in_charge`` is empty where nobody is, or where all are alike, as the members of Kubernetes'.
    """

    role: Role
    members: frozenset[str]
    well: frozenset[str]
    in_charge: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why the machine has to stay, empty where it may go; and whether it may as soon as another has taken over."""

    keeps: str = ""
    hands_over: Role | None = None


def verdict(node: str, leaves: Role, standings: tuple[Standing, ...]) -> Verdict:
    """Judge if ``node`` may lose the role ``leaves``, for all that it runs of that side's control plane."""
    for standing in standings:
        if standing.role != leaves or node not in standing.members:
            continue
        found = _slurm(node, standing) if leaves == "slurm" else _kubernetes(node, standing)
        if found.keeps:
            return found
    return Verdict()


def _slurm(node: str, standing: Standing) -> Verdict:
    others = sorted(standing.members & standing.well - {node})
    if not others:
        return Verdict(
            f"{node} runs slurmctld, and no other controller answers that could take over; start a backup, and look at "
            "`scontrol ping`"
        )
    if standing.in_charge in others or node not in standing.well:
        return Verdict()
    return Verdict(f"slurmctld of {others[0]} takes over from {node}", hands_over="slurm")


def _kubernetes(node: str, standing: Standing) -> Verdict:
    stay = standing.members - {node}
    well = stay & standing.well
    majority = len(stay) // 2 + 1
    if stay and len(well) >= majority:
        return Verdict()
    return Verdict(
        f"{node} is a member of Kubernetes' control plane: without it {len(well)} of {len(stay)} would be well, and "
        f"{majority if stay else 1} must be; add a member, or mend one, first"
    )
