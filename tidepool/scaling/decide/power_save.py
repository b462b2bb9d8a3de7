"""Mode `power_save`: nodes come and go as Slurm's power saving asks, within the limits."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tidepool.clients.slurm import NodeBase, NodeFlag
from tidepool.cluster.slots import fleet_and_number
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.draft import Draft
from tidepool.scaling.decide.limits import Limits
from tidepool.scaling.decide.observed import seen
from tidepool.scaling.decide.reconcile import Ledger
from tidepool.scaling.decide.reconcile_words import Order, Seen, Todo
from tidepool.scaling.decide.vacancy import is_quarantined
from tidepool.scaling.memory import Memory
from tidepool.scaling.phase import Phase

_ASKS: Final = "Slurm's power saving asks for it"
_DRAINED: Final = frozenset({Phase.DRAINED, Phase.DRAINING})
_ASKED: Final = frozenset({NodeFlag.POWERING_UP, NodeFlag.POWER_UP})


def asked_up(state: ClusterState) -> frozenset[str]:
    """The nodes that Slurm's power saving wants to be there. None in the other mode."""
    if state.spec.scaling.mode != "power_save":
        return frozenset()
    return state.power_up | {
        node.name
        for node in state.nodes
        # One that is DOWN was given up, and is about to be powered down.
        if node.state.flags & _ASKED and node.state.base is not NodeBase.DOWN
    }


def follow(draft: Draft, state: ClusterState, memory: Memory, ledger: Ledger, limits: Limits) -> None:
    """Launch what Slurm powers up, and tell it of those that do not come.

    What it powers down goes by the ledger. It is not drained: no job begins there any more, and a drain would stay with
    the slot.
    """
    _power_up(draft, state, memory, ledger, limits)
    _given_up(draft, state)
    wanted = asked_up(state)
    for entry in ledger.entries.values():
        if entry.phase in _DRAINED and entry.name in draft.desired and entry.name in wanted:
            if entry.todo is not Todo.WAIT:
                draft.undrain(entry.fleet, entry.name, _ASKS)
        elif entry.todo is Todo.LEAVE and entry.phase is Phase.DRAINED:
            draft.remove(entry.fleet, entry.name, "drained and empty: Slurm's power saving gives it back")
        elif entry.todo in (Todo.REPLACE, Todo.DROP) and entry.is_confirmed:
            _fail(draft, entry.name, entry.why)


def _power_up(draft: Draft, state: ClusterState, memory: Memory, ledger: Ledger, limits: Limits) -> None:
    fleets = {fleet.name: fleet for fleet in state.spec.fleets}
    launched: Counter[str] = Counter()
    usd = 0.0
    for fleet_name, number, name in sorted(_places(asked_up(state))):
        entry = ledger.entries.get(name)
        if name in draft.desired:
            continue
        if entry is not None and entry.order is not Order.FAILED:
            continue  # it is being taken away still, and made again when it is gone
        fleet = fleets.get(fleet_name)
        if fleet is None or number > fleet.max_nodes:
            _fail(draft, name, "it is no slot of a fleet")
        elif is_quarantined(fleet, name, memory, state.at):
            _fail(draft, name, memory.node_backoffs[name].text)
        else:
            grant = limits.more(fleet_name, 1, launched, time_limit_s=0, launched_usd=usd)
            if grant.nodes:
                launched[fleet_name] += 1
                usd += grant.usd_per_node
                draft.launch(fleet_name, [name], _ASKS, lasting_s={name: 0})
            else:
                _fail(draft, name, grant.reason)


def _given_up(draft: Draft, state: ClusterState) -> None:
    """Nodes that Slurm gave up when ResumeTimeout was over, for no daemon ran: they are fit to be asked for again."""
    for node in state.nodes:
        is_down = node.state.base is NodeBase.DOWN and NodeFlag.POWERED_DOWN in node.state.flags
        if is_down and node.name not in draft.desired and seen(node) is Seen.OFF:
            for _, _, name in _places(frozenset({node.name})):
                _fail(draft, name, "it did not come in time, and nothing is left of it")


def _fail(draft: Draft, name: str, reason: str) -> None:
    if not draft.is_expected(name):
        draft.power_failed(fleet_and_number(name)[0], name, reason)


def _places(names: frozenset[str]) -> list[tuple[str, int, str]]:
    found = []
    for name in names:
        try:
            found.append((*fleet_and_number(name), name))
        except ValueError:
            continue  # no node of ours
    return found
