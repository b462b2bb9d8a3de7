"""What is told of steps that failed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidepool.engine.events import ResourceFailed, Summary
from tidepool.engine.resource import Snapshot

from .play import Order, play
from .programs import Node, Program
from .world import World


@pytest.mark.parametrize(
    ("method", "fault", "status"),
    [
        ("create", "fail", 0),
        ("create", "init", 1),
        ("create", "unclear", 2),
        ("update", "fail", 0),
        ("update", "init", 1),
        ("update", "unclear", 2),
        ("delete", "fail", 0),
        ("delete", "unclear", 2),
        ("read", "fail", 0),
        ("read", "unclear", 2),
    ],
)
def test_a_failure_tells_what_is_known_of_the_resource(
    method: str, fault: str, status: int, tmp_path: Path
) -> None:
    """As before, there in part, or not known; the last may mean that the state is wrong."""
    first = Program((Node("a"), Node("b")))
    changed = {
        "create": Program((*first.nodes, Node("c"))),
        "update": Program((first.nodes[0], replace(first.nodes[1], value=1))),
        "delete": Program(first.nodes[:1]),
        "read": first,
    }
    of = "c" if method == "create" else "b"
    world = World()
    base = play(Order(), first, Snapshot(), world, tmp_path).snapshot
    order = Order(faults={(method, of): fault}, refresh=method == "read")
    played = play(order, changed[method], base, world, tmp_path)
    assert [e.status for e in played.events if isinstance(e, ResourceFailed)] == [status]
    assert [e.maybe_corrupt for e in played.events if isinstance(e, Summary)] == [status == 2]
