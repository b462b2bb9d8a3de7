"""Roles that the machines of a converged pool should have: by name, never by count."""

from __future__ import annotations

from collections.abc import Mapping

from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.pool import ConvergedPool, Role


def role_set(pool: ConvergedPool, *, wish: str | None = None, last: str | None = None) -> Mapping[str, Role]:
    """The role of each of a pool's machines, by node name, in the order of its slots.

    Args:
        pool: the pool as the spec has it now.
        wish: a hostlist of the machines that are to serve Kubernetes, of the scaler's or of a person who converts; it is
            taken as it is. None where nobody speaks.
        last: the hostlist of those that the stack's outputs tell of, so that a person's `up` moves no machine that the
            scaler moved; None where there is none. Where a minimum is missed, or a maximum exceeded, the last machines
            that have the other role change.

    Raises:
        ValueError: a name is no machine of the pool, or the wish breaks a minimum or a maximum by more than ``last`` does;
            says which.
    """
    names = [slot.node_name for slot in pool.slots()]
    said = HostSet(last or "") if wish is None else HostSet(wish)
    if wish is not None and (unknown := [name for name in said if name not in set(names)]):
        raise ValueError(
            f"{unknown[0]} is no machine of the pool {pool.name}: its machines are {pool.name}-[1-{pool.machines}]"
        )
    # A machine that the pool no longer has serves nobody.
    roles: dict[str, Role] = {name: "kubernetes" if name in said else "slurm" for name in names}
    least, most = pool.least("kubernetes"), pool.most("kubernetes")
    least = max(least, pool.machines - pool.most("slurm"))
    most = min(most, pool.machines - pool.least("slurm"))
    serving = [name for name in names if roles[name] == "kubernetes"]
    if wish is not None:
        # Where a conversion failed fewer serve than should, and one after the other mends it.
        before = HostSet(last or "")
        were = [name for name in names if name in before]
        missed = 0 if last is None else _off(len(were), least, most)
        if _off(len(serving), least, most) > missed:
            raise ValueError(
                f"pool {pool.name}: {len(serving)} of its {pool.machines} machines would serve Kubernetes; between "
                f"{least} and {most} can, by slurm_min, slurm_max, kubernetes_min and kubernetes_max"
            )
        return roles
    others = [name for name in names if roles[name] == "slurm"]
    for name in others[len(others) - max(0, least - len(serving)) :]:
        roles[name] = "kubernetes"
    for name in serving[max(0, most) :]:
        roles[name] = "slurm"
    return roles


def _off(serving: int, least: int, most: int) -> int:
    """By how many machines a limit is missed."""
    return max(least - serving, serving - most, 0)
