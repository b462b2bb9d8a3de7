"""Mode `power_save`: nodes come and go as Slurm's power saving asks, within the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from tidepool.clients.slurm import NodeBase, NodeFlag
from tidepool.cluster.slots import fleet_and_number
from tidepool.scaling.cluster_state import ClusterState, Recorded
from tidepool.scaling.decide.capacity import is_quarantined
from tidepool.scaling.decide.limits import Limits
from tidepool.scaling.decide.node_status import NodeAction, RequestStatus, SlurmStatus, slurm_status
from tidepool.scaling.decide.plan import NewNodes, Plan, Step
from tidepool.scaling.decide.reconcile import Entry, Reconciled, slot_of
from tidepool.scaling.decision import Phase, PowerFailed, Remove, Undrain
from tidepool.scaling.memory import Memory

_ASKS: Final = "Slurm's power saving asks for it"
_DRAINED: Final = frozenset({Phase.DRAINED, Phase.DRAINING})
#: A node that is being taken away, or that failed, is made when it is gone, or left alone no more.
_NOT_FREE: Final = frozenset({RequestStatus.UNDER_WAY, RequestStatus.UP, RequestStatus.FAILED})
_NOT_UP: Final = frozenset({SlurmStatus.UNLISTED, SlurmStatus.SLOT, SlurmStatus.BOOTING})
_ASKED: Final = frozenset({NodeFlag.POWERING_UP, NodeFlag.POWER_UP})


def powered_up(state: ClusterState) -> frozenset[str]:
    """The nodes that Slurm's power saving wants to be there. None in the other mode."""
    if state.spec.scaling.mode != "power_save":
        return frozenset()
    return state.power_up | {
        node.name
        for node in state.nodes
        # One that is DOWN was given up, and is about to be powered down.
        if node.state.flags & _ASKED and node.state.base is not NodeBase.DOWN
    }


def joins(entry: Entry, recorded: Mapping[str, Recorded]) -> bool:
    """Return whether a node that power saving asks for, and of which something is there, is desired from now on.

    One that is recorded is. One of no record is where its machine can be made its node's: then the same decision says
    so, with a repair. Otherwise the next look tells what Slurm means, which has just asked: a node that is up is asked for no
    more, one that comes is powering up, and one that somebody holds is theirs.
    """
    if entry.is_desired or entry.request in _NOT_FREE:
        return False
    if not recorded.get(entry.name, Recorded()).is_empty:
        return True
    is_new = entry.phase is Phase.STRAY and entry.request is RequestStatus.NONE
    return is_new and slurm_status(entry.node) in _NOT_UP


def follow(plan: Plan, state: ClusterState, memory: Memory, reconciled: Reconciled, limits: Limits) -> Plan:
    """Return the plan that launches what Slurm powers up, and tells it of nodes that do not come.

    What it powers down goes by the reconcile table. It is not drained: no job begins there any more, and a drain would
    stay with the slot.
    """
    plan = _powered_up(plan, state, memory, reconciled, limits)
    plan = plan.with_steps(_given_up(plan, state))
    wanted = powered_up(state)
    steps = []
    for entry in reconciled.entries.values():
        if entry.phase in _DRAINED and entry.name in plan.desired and entry.name in wanted:
            if entry.action is not NodeAction.WAIT:
                steps.append(Step(Undrain, entry.fleet, entry.name, _ASKS))
        elif entry.action is NodeAction.LEAVE and entry.phase is Phase.DRAINED:
            reason = "drained and empty: Slurm's power saving gives it back"
            steps.append(Step(Remove, entry.fleet, entry.name, reason))
        elif entry.action in (NodeAction.REPLACE, NodeAction.DROP) and entry.is_confirmed:
            steps += _fail(plan, entry.name, entry.why)
    return plan.with_steps(steps)


def _powered_up(
    plan: Plan, state: ClusterState, memory: Memory, reconciled: Reconciled, limits: Limits
) -> Plan:
    fleets = {fleet.name: fleet for fleet in state.spec.fleets}
    launched: Counter[str] = Counter()
    usd = 0.0
    new: list[NewNodes] = []
    failed: list[Step] = []
    for fleet_name, number, name in sorted(filter(None, map(slot_of, powered_up(state)))):
        entry = reconciled.entries.get(name)
        if name in plan.desired:
            continue
        if entry is not None and entry.request is not RequestStatus.FAILED:
            continue  # it is being taken away still, and made again when it is gone; or see `joins`
        fleet = fleets.get(fleet_name)
        if fleet is None or number > fleet.max_nodes:
            failed += _fail(plan, name, "it is no slot of a fleet")
        elif is_quarantined(fleet, name, memory, state.at):
            failed += _fail(plan, name, memory.node_backoffs[name].text)
        else:
            # Slurm never suspends as many as min_nodes: they stay until the month's end.
            stays = limits.present.get(fleet_name, 0) + launched[fleet_name] < fleet.min_nodes
            time_limit_s = None if stays else 0
            grant = limits.more(fleet_name, 1, launched, time_limit_s=time_limit_s, launched_usd=usd)
            if grant.nodes:
                launched[fleet_name] += 1
                usd += grant.usd_per_node
                new.append(NewNodes(fleet_name, (name,), _ASKS, {name: 0}))
            else:
                failed += _fail(plan, name, grant.reason)
    return plan.with_launches(new).with_steps(failed)


def _given_up(plan: Plan, state: ClusterState) -> Iterator[Step]:
    """Return the nodes that Slurm gave up, for no daemon ran until ResumeTimeout: they may be asked for again."""
    for node in state.nodes:
        is_down = node.state.base is NodeBase.DOWN and NodeFlag.POWERED_DOWN in node.state.flags
        is_off = is_down and slurm_status(node) is SlurmStatus.OFF
        if is_off and node.name not in plan.desired and slot_of(node.name) is not None:
            yield from _fail(plan, node.name, "it did not come in time, and nothing is left of it")


def _fail(plan: Plan, name: str, reason: str) -> list[Step]:
    if plan.is_expected(name):
        return []
    return [Step(PowerFailed, fleet_and_number(name)[0], name, reason)]
