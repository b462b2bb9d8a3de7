"""Whether a machine of a pool may still move just before it does; and what is ordered, by whom."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.scaling.decide.cluster_states import AT, node, running
from tests.scaling.decide.pools.looks import bound, conversion, kube_node
from tests.simulation.pool_scene import PoolScene
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.roles import Role
from tidepool.conversion.record import Order
from tidepool.scaling.act.conversions import DEADLINE_S, Moves, serving
from tidepool.scaling.act.validity import wrong_convert
from tidepool.scaling.cluster_state import RecordedRole
from tidepool.scaling.observe.observation import PoolsRecheck, Recheck

NAME = "shared-1"


def recheck(role: Role = "slurm", **changes: Any) -> PoolsRecheck:
    """A machine that serves ``role`` and is idle."""
    state = "IDLE" if role == "slurm" else "FUTURE"
    slurm = Recheck({NAME: changes.pop("node", node(NAME, state))}, changes.pop("jobs", ()), None, {})
    fields: dict[str, Any] = {
        "slurm": slurm,
        "nodes": {NAME: kube_node(NAME)} if role == "kubernetes" else {},
        "pods": (),
        "under_way": {},
        "recorded": {NAME: RecordedRole(role, machine=True)},
        "at": AT,
    }
    return PoolsRecheck(**fields | changes)


UNDER_WAY = conversion(NAME, "kubernetes", "holding", driver_until=AT - timedelta(seconds=1))
DRIVEN = replace(UNDER_WAY, driver_until=AT + timedelta(seconds=1))
PERSONS = conversion(NAME, "kubernetes", "asked", by="person")


@pytest.mark.parametrize(
    ("seen", "to", "wrong"),
    [
        (recheck(), "kubernetes", ""),
        (recheck("kubernetes"), "slurm", ""),
        (recheck(jobs=(running(1, NAME),)), "kubernetes", "a job has started there"),
        (recheck(node=node(NAME, "IDLE+COMPLETING")), "kubernetes", "a job has started there"),
        (recheck(node=node(NAME, "IDLE+DRAIN", "broken fan")), "kubernetes", "Slurm has no such node that takes jobs"),
        (recheck(node=node(NAME, "FUTURE")), "kubernetes", "Slurm has no such node that takes jobs"),
        (recheck("kubernetes", pods=(bound("web", NAME),)), "slurm", "a pod has started there"),
        (recheck("kubernetes", pods=(bound("log", NAME, is_daemon=True),)), "slurm", ""),
        (recheck("kubernetes", nodes={}), "slurm", "Kubernetes has no such node"),
        (
            recheck("kubernetes", nodes={NAME: kube_node(NAME, unschedulable=True)}),
            "slurm",
            "somebody else has it in hand",
        ),
        (recheck(), "slurm", "it serves slurm already"),
        (recheck(recorded={}), "kubernetes", "it is in no pool any more"),
        (recheck(under_way={NAME: DRIVEN}), "kubernetes", "scaler has it converted to kubernetes"),
        (recheck(under_way={NAME: UNDER_WAY}), "slurm", "scaler has it converted to kubernetes"),
        (recheck(under_way={NAME: PERSONS}), "kubernetes", "person has it converted to kubernetes"),
        # Ours, from before a kill: drained already.
        (recheck(under_way={NAME: UNDER_WAY}, node=node(NAME, "IDLE+DRAIN", "tidepool: moves to kubernetes")), "kubernetes", ""),
    ],
)  # fmt: skip
def test_what_is_not_right_any_more_is_left(seen: PoolsRecheck, to: Role, wrong: str) -> None:
    assert wrong_convert(seen, NAME, to, repairs=False) == wrong


def test_what_was_begun_is_gone_on_with_unless_somebody_is_at_it() -> None:
    assert wrong_convert(recheck(jobs=(running(1, NAME),)), NAME, "kubernetes", repairs=True) == ""
    assert wrong_convert(recheck(under_way={NAME: PERSONS}), NAME, "kubernetes", repairs=True) == ""
    assert wrong_convert(recheck(under_way={NAME: DRIVEN}), NAME, "kubernetes", repairs=True)


def test_those_that_serve_kubernetes_afterwards_are_told_by_pool() -> None:
    recorded = {
        "shared-1": RecordedRole("slurm", True),
        "shared-2": RecordedRole("kubernetes", True),
        "shared-3": RecordedRole("kubernetes", True),
        "more-1": RecordedRole("kubernetes", True),
    }
    moves = Moves(
        (),
        {"shared-1": "shared", "shared-3": "shared"},
        {"shared-1": "kubernetes", "shared-3": "slurm"},
        frozenset(),
        {},
    )
    assert serving(recorded, moves) == {"shared": HostSet("shared-[1-2]")}
    assert moves.without({"shared-3": "a job"}).nodes == {"shared-1": "shared"}


# In a cluster


def test_what_is_ordered_says_by_whom_and_why_and_waits_for_nothing(tmp_path: Path) -> None:
    scene = PoolScene(tmp_path)
    pods = scene.want()
    scene.until(lambda: scene.run_now(pods))
    (done,) = scene.pools.journal.conversions()
    order = done.order
    assert (order.by, order.reason, order.deadline_s, order.at_deadline) == (
        "scaler",
        "pod default/p0 needs it",
        DEADLINE_S,
        "stop",
    )
    assert done.leaves == "slurm"


def test_while_somebody_is_at_work_on_the_stack_nothing_is_ordered(tmp_path: Path) -> None:
    scene = PoolScene(tmp_path)
    scene.cluster.stack.locked = True
    pods = scene.want()
    scene.pass_time(60)
    assert not scene.pools.journal.conversions()
    scene.cluster.stack.locked = False
    scene.cluster.wake()
    scene.until(lambda: scene.run_now(pods), 30)


def test_an_order_that_could_not_be_carried_out_is_taken_back(tmp_path: Path) -> None:
    scene = PoolScene(tmp_path)
    scene.cluster.stack.failing = "the program does not run"
    scene.want()
    scene.pass_time(20)
    assert scene.pools.journal.conversions()
    assert {each.phase for each in scene.pools.journal.conversions()} == {"stopped"}
    assert scene.decisions[-1].waiting_pods["default/p0"].standing == "setback"


def test_a_persons_order_is_respected(tmp_path: Path) -> None:
    scene = PoolScene(tmp_path)
    now = scene.cluster.clock.true
    scene.pools.journal.order(Order("shared-1", "shared", "kubernetes", now, "person", "a demo"), "slurm")
    scene.want(4, seconds=20)
    scene.pass_time(25)
    assert {each.order.by for each in scene.pools.journal.conversions(node="shared-1")} == {"person"}
