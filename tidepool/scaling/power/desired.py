"""Requests of Slurm's power saving: its calls, and what it says of its nodes. Pure.

A call comes at once, and may come twice, or be of yesterday. What Slurm says of a node is what holds, and may be seen
late. So a call counts until Slurm is seen to say something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tidepool.clients.slurm import Node, NodeBase, NodeFlag
from tidepool.cluster.hostlist import HostSet
from tidepool.infrastructures import Machine
from tidepool.scaling.power.spool import Request

_COMING: Final = frozenset({NodeFlag.POWERING_UP, NodeFlag.POWER_UP})
_GOING: Final = frozenset({NodeFlag.POWER_DOWN, NodeFlag.POWERING_DOWN, NodeFlag.POWERED_DOWN})


@dataclass(frozen=True, slots=True)
class PowerDemand:
    """The nodes that Slurm waits for, and those that it gave back and of which there is something left."""

    up: frozenset[str] = frozenset()
    down: frozenset[str] = frozenset()


class Look(Protocol):
    """A look at nodes: by Slurm, in the stack's state (by name), and by the infrastructure."""

    @property
    def nodes(self) -> tuple[Node, ...]: ...

    @property
    def recorded(self) -> Mapping[str, Any] | None: ...

    @property
    def machines(self) -> tuple[Machine, ...] | None: ...


def power_demand(
    before: PowerDemand, look: Look, desired: Mapping[str, HostSet], calls: Iterable[Request] = ()
) -> PowerDemand:
    """``before`` with what came since.

    ``look`` is later than ``before``. ``calls`` are not in ``before`` yet, and may be later than ``look``.
    """
    coming, going = set(before.up), set(before.down)
    known = set()
    for node in look.nodes:
        known.add(node.name)
        flags = node.state.flags
        if flags & _GOING:
            coming.discard(node.name)
            going.add(node.name)
        elif flags & _COMING and node.state.base is not NodeBase.DOWN:
            coming.add(node.name)
            going.discard(node.name)
        else:
            # In service, or given up by us.
            coming.discard(node.name)
            going.discard(node.name)
    going &= _there(look, desired)
    for call in calls:
        gains, loses = (coming, going) if call.what == "up" else (going, coming)
        gains.update(call.nodes)
        loses.difference_update(call.nodes)
    return PowerDemand(frozenset(coming & known), frozenset(going & known))


def _there(look: Look, desired: Mapping[str, HostSet]) -> set[str]:
    """The nodes of which there is something, or should be."""
    names = (name for hosts in desired.values() for name in hosts)
    machines = (machine.key.node for machine in look.machines or ())
    return {*names, *(look.recorded or ()), *machines}
