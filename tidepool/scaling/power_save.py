"""Mode `power_save`: nodes come and go as Slurm's power saving asks, within the limits."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tidepool.cluster.slots import fleet_and_number
from tidepool.scaling.draft import Draft
from tidepool.scaling.ledger import Ledger
from tidepool.scaling.ledger_table import Todo
from tidepool.scaling.limits import Limits
from tidepool.scaling.memory import Memory
from tidepool.scaling.phase import Phase
from tidepool.scaling.world import World
from tidepool.slurm import NodeFlag

_ASKED: Final = frozenset({NodeFlag.POWERING_UP, NodeFlag.POWER_UP})


def asked_up(world: World) -> frozenset[str]:
    """The nodes that Slurm's power saving wants to be there. None in the other mode."""
    if world.spec.scaling.mode != "power_save":
        return frozenset()
    return world.power_up | {node.name for node in world.nodes if node.state.flags & _ASKED}


def follow(draft: Draft, world: World, memory: Memory, ledger: Ledger, limits: Limits) -> None:
    """Launch what Slurm powers up, and tell it of those that do not come.

    What it powers down goes by the ledger. It is not drained: no job begins there any more, and a drain would stay with
    the slot.
    """
    _power_up(draft, world, memory, ledger, limits)
    for entry in ledger.entries.values():
        if entry.todo is Todo.LEAVE and entry.phase is Phase.DRAINED:
            draft.remove(entry.fleet, entry.name, "drained and empty: Slurm's power saving gives it back")
        elif entry.todo in (Todo.REPLACE, Todo.DROP) and entry.is_confirmed:
            _fail(draft, entry.name, entry.why)


def _power_up(draft: Draft, world: World, memory: Memory, ledger: Ledger, limits: Limits) -> None:
    fleets = {fleet.name: fleet for fleet in world.spec.fleets}
    # Of those that are only slots nothing is taken away any more.
    standing_removals = draft.awaited.keys() & ledger.entries.keys()
    launched: Counter[str] = Counter()
    usd = 0.0
    for fleet_name, number, name in sorted(_places(asked_up(world))):
        if name in draft.wished:
            continue
        if name in standing_removals:
            continue  # it is being taken away still, and made again when it is gone
        fleet = fleets.get(fleet_name)
        setback = memory.node_setbacks.get(name)
        if fleet is None or number > fleet.max_nodes:
            _fail(draft, name, "it is no slot of a fleet")
        elif setback is not None and setback.until > world.at:
            _fail(draft, name, setback.text)
        else:
            grant = limits.more(fleet_name, 1, launched, time_limit_s=0, launched_usd=usd)
            if grant.nodes:
                launched[fleet_name] += 1
                usd += grant.usd_per_node
                draft.launch(fleet_name, [name], "Slurm's power saving asks for it", lasting_s={name: 0})
            else:
                _fail(draft, name, grant.reason)


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
