"""What Slurm's power saving asks for and gives back: its calls, and what it says of its nodes. Pure.

A call comes at once, and may come twice, or be of yesterday. What Slurm says of a node is what holds, and may be seen
late. So a call counts until Slurm is seen to say something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidepool.scaling.power.spool import Request
from tidepool.slurm import Node, NodeBase, NodeFlag

_GOING = frozenset({NodeFlag.POWERING_DOWN, NodeFlag.POWERED_DOWN})


@dataclass(frozen=True, slots=True)
class Asked:
    """The nodes that Slurm waits for, and those that it gave back and that are still to be taken away."""

    up: frozenset[str] = frozenset()
    down: frozenset[str] = frozenset()


def asked(
    before: Asked, nodes: Iterable[Node], there: frozenset[str], calls: Iterable[Request] = ()
) -> Asked:
    """``before`` with what came since.

    ``nodes`` were seen after ``before`` was written down. ``there`` are the nodes of which there is something: wished,
    recorded, or with a machine. ``calls`` are not in ``before`` yet; they may be later than ``nodes``.
    """
    up, down = set(before.up), set(before.down)
    known = set()
    for node in nodes:
        name, flags = node.name, node.state.flags
        known.add(name)
        if NodeFlag.POWERING_UP in flags and node.state.base is not NodeBase.DOWN:
            up.add(name)
            down.discard(name)
        elif flags & _GOING:
            up.discard(name)
            if name in there:
                down.add(name)
            else:
                down.discard(name)
        else:
            # In service, or given up by us and not powered down yet.
            up.discard(name)
            down.discard(name)
    up, down = up & known, down & known
    for call in calls:
        names = known.intersection(call.nodes)
        gains, loses = (up, down) if call.what == "up" else (down, up)
        gains |= names
        loses -= names
    return Asked(frozenset(up), frozenset(down))
