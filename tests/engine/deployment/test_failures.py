"""What is told of steps that failed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidepool.engine import urn as urns
from tidepool.engine.deployment.deployment import Deployment
from tidepool.engine.deployment.goal import Goal
from tidepool.engine.deployment.status import MonitorClosed
from tidepool.engine.events import Diagnostic, ResourceFailed, Summary
from tidepool.engine.resource import ResourceState, Snapshot

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


@pytest.mark.parametrize(
    ("method", "of"), [("check", "b"), ("diff", "b"), ("check", "default"), ("check", "p"), ("diff", "p")]
)
def test_an_error_before_there_is_a_step_is_told_of_the_resource(
    method: str, of: str, tmp_path: Path
) -> None:
    first = Program((Node("p", kind="provider"), Node("a"), Node("b", provider="p")))
    second = Program(tuple(replace(n, value=1) for n in first.nodes))
    world = World()
    base = play(Order(), first, Snapshot(), world, tmp_path).snapshot
    played = play(Order(faults={(method, of): "fail"}), second, base, world, tmp_path)
    told = [(e.message, urns.name_of(e.urn)) for e in played.events if isinstance(e, Diagnostic)]
    (urn,) = [r.urn for r in base.resources if urns.name_of(r.urn) == of]
    assert told == [(f"{method} of {urn} failed", of)]


def test_a_parent_that_nobody_registered_is_told_of_the_child(tmp_path: Path) -> None:
    missing = "urn:pulumi:dev::graph::mem:index:Group::none"

    class Orphaned(Program):
        async def run(self, deployment: Deployment) -> None:
            state = ResourceState("", "mem:index:Item", True, parent=missing)
            with pytest.raises(MonitorClosed):
                await deployment.serve(deployment.registrar.register(Goal("b", state)))

    played = play(Order(), Orphaned(()), Snapshot(), World(), tmp_path)
    told = [(e.message, e.urn) for e in played.events if isinstance(e, Diagnostic)]
    assert told == [
        (
            f"could not find parent resource {missing}",
            "urn:pulumi:dev::graph::mem:index:Group$mem:index:Item::b",
        )
    ]
