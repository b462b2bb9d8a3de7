"""Checks that an action is still right, by a look from just before it is taken. Pure.

Between a decision and its effect a job may have started, a person may have drained a node, another may have brought the
cluster up. What is not right any more is left, and decided anew.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tidepool.cluster.roles import Role
from tidepool.infrastructures import MachineKey
from tidepool.scaling.cluster_state import Recorded
from tidepool.scaling.decide.node_status import SlurmStatus, slurm_status
from tidepool.scaling.observe.observation import PoolsRecheck, Recheck

#: Nothing is there that could be lost.
_NOT_THERE: Final = frozenset({SlurmStatus.UNLISTED, SlurmStatus.SLOT})
#: Without jobs, nothing is lost by its end.
_MAY_GO: Final = frozenset(
    {
        SlurmStatus.OURS,
        SlurmStatus.SILENT,
        SlurmStatus.DOWN,
        SlurmStatus.UNFIT,
        SlurmStatus.OFF,
        SlurmStatus.BOOTING,
    }
)
_MAY_BE_FORGOTTEN: Final = frozenset({SlurmStatus.OURS, SlurmStatus.DOWN, SlurmStatus.UNFIT})
_NOT_OURS: Final = "somebody else has it in hand"


def wrong_drain(recheck: Recheck, name: str, was_idle: Collection[str]) -> str:
    """Why not to drain a node any more; empty where it is right."""
    node = recheck.nodes.get(name)
    if node is None or node.state.is_slot:
        return "there is no such node"
    if node.state.is_draining:
        return "it is drained already"
    if name in was_idle and recheck.has_jobs(name):
        return "a job has started there"
    return ""


def wrong_undrain(recheck: Recheck, name: str) -> str:
    """Why not to undrain a node any more."""
    node = recheck.nodes.get(name)
    if node is None or node.state.is_slot:
        return "there is no such node"
    if not node.state.is_draining:
        return "it is not drained"
    return "" if slurm_status(node) is SlurmStatus.OURS else _NOT_OURS


def wrong_remove(recheck: Recheck, name: str) -> str:
    """Why not to take a node away any more: its machine dies by it."""
    how = slurm_status(recheck.nodes.get(name))
    if how in _NOT_THERE or recheck.is_dead(name):
        return ""
    if recheck.has_jobs(name):
        return "it has jobs"
    if how in _MAY_GO:
        return ""
    return "it is not drained" if how is SlurmStatus.UP else _NOT_OURS


def wrong_release_slot(recheck: Recheck, name: str) -> str:
    """Why not to make a slot of a node any more."""
    if recheck.may_have_machine(name):
        return "it has a machine, or may have one that cannot be seen"
    if not recheck.recorded.get(name, Recorded()).is_empty:
        return "it is recorded by now"
    if recheck.has_jobs(name):
        return "it has jobs"
    how = slurm_status(recheck.nodes.get(name))
    if how in _NOT_THERE:
        return "it is a slot already"
    return "" if how in _MAY_BE_FORGOTTEN else _NOT_OURS


def wrong_repair(recheck: Recheck, name: str, is_desired: bool) -> str:
    """Why not to make a node as it is recorded: one that is not desired goes by it."""
    if not is_desired:
        return wrong_remove(recheck, name)
    node, record = recheck.nodes.get(name), recheck.recorded.get(name, Recorded())
    is_whole = record.machine and record.membership and not record.pending
    if node is not None and node.state.takes_jobs and is_whole and not recheck.is_dead(name):
        return "it is well again"
    return ""


def wrong_delete_orphan(recheck: Recheck, key: MachineKey, is_busy: bool) -> str:
    """Why not to delete a machine of no record. ``is_busy``: an operation is under way, which may be making it."""
    if recheck.machines is None or not any(each.key == key for each in recheck.machines):
        return "there is no such machine any more"
    if is_busy:
        return "an operation is under way on the stack"
    if recheck.is_another(key):
        # That one is recorded, and has the jobs.
        return "it has jobs" if recheck.has_jobs(key.node) else ""
    if not recheck.recorded.get(key.node, Recorded()).is_empty:
        return "it is recorded by now"
    if recheck.has_jobs(key.node):
        return "it has jobs"
    node = recheck.nodes.get(key.node)
    takes_jobs = node is not None and node.state.takes_jobs
    return "it takes jobs" if takes_jobs and not recheck.is_dead(key.node) else ""


def wrong_convert(recheck: PoolsRecheck, name: str, to: Role, *, repairs: bool) -> str:
    """Why not to give a machine of a pool the role ``to`` any more."""
    record, under_way = recheck.recorded.get(name), recheck.under_way.get(name)
    if record is None or not record.machine:
        return "it is in no pool any more"
    if under_way is not None and under_way.driver_until is not None and under_way.driver_until > recheck.at:
        return f"{under_way.order.by} has it converted to {under_way.order.to}"
    if repairs:
        return ""
    if under_way is not None and (under_way.order.by != "scaler" or under_way.order.to != to):
        return f"{under_way.order.by} has it converted to {under_way.order.to}"
    if under_way is not None and under_way.phase != "asked":
        return ""  # ours, from before this daemon was killed: it is gone on with, however far it is
    if record.role == to:
        return f"it serves {to} already"
    return (
        _wrong_to_leave_slurm(recheck, name)
        if to == "kubernetes"
        else _wrong_to_leave_kubernetes(recheck, name)
    )


def _wrong_to_leave_slurm(recheck: PoolsRecheck, name: str) -> str:
    node = recheck.slurm.nodes.get(name)
    if node is None or node.state.is_slot or not node.state.takes_jobs:
        return "Slurm has no such node that takes jobs"
    if slurm_status(node) is not SlurmStatus.UP:
        return _NOT_OURS
    return "a job has started there" if recheck.slurm.has_jobs(name) else ""


def _wrong_to_leave_kubernetes(recheck: PoolsRecheck, name: str) -> str:
    node = recheck.nodes.get(name)
    if node is None:
        return "Kubernetes has no such node"
    if node.unschedulable:
        return _NOT_OURS
    return "a pod has started there" if recheck.has_pods(name) else ""
