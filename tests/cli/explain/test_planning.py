"""What a plan says: actions, whom they serve, what they cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.cli.explain.records import NOW, job, launch, record, spec
from tests.cluster.specs import spec_mapping
from tidepool.cli.explain.plan import PlanView, nodes_to_change, plan_lines, planning
from tidepool.infrastructures import MachineKey
from tidepool.scaling.decision import Action, Cost, DeleteOrphan, Drain, Remove, Repair, Undrain, Waiting
from tidepool.scaling.memory import Memory

MADE = ("cpu-1", "cpu-2")
PRICED = spec_mapping()
PRICED["fleets"][0]["infrastructures"] = [{"name": "local", "price_usd_per_hour": 0.25}]


def plan(*actions: Action, preview: str | None = None, **changes: Any) -> PlanView:
    seen = record(**{"of": spec(**PRICED), "cost": Cost(1.0), **changes})
    assert seen.decision is not None
    return planning(seen, replace(seen.decision, actions=actions), preview)


def said(view: PlanView) -> str:
    return "\n".join("".join(cell.text for cell in line) for line in plan_lines(view))


def test_a_launch_serves_all_jobs_that_would_run_there() -> None:
    waiting = (
        Waiting(41, "coming", "made", ("cpu-1",)),
        Waiting(42, "coming", "made", ("cpu-2", "gpu-1")),
        Waiting(43, "room", "there is room", ("cpu-3",)),
    )
    view = plan(launch(*MADE, jobs=(41,)), waiting=waiting, jobs=tuple(map(job, (41, 42, 43))))
    (action,) = view.actions
    assert (action.nodes, action.number, action.jobs, action.usd_per_hour) == ("cpu-[1-2]", 2, (41, 42), 0.5)
    assert (view.usd_per_hour, view.usd_per_hour_after) == (1.0, 1.5)
    told = said(view)
    assert "for 2 jobs: 41, 42  +$0.50/h" in told
    assert "$1.00 an hour now, $1.50 then" in told
    assert "what would be left waiting" in told


def test_nodes_cost_what_they_cost_where_they_are() -> None:
    mapping = spec_mapping()
    mapping["fleets"][0]["infrastructures"] = [
        {"name": "local"},
        {"name": "aws", "offering": "spot", "price_usd_per_hour": 0.5},
    ]
    of, memory = spec(**mapping), Memory(locations={"cpu-1": "local", "cpu-2": "aws/spot"})
    actions = (replace(launch(*MADE), location="aws/spot"), launch(*MADE), Remove("cpu", MADE, "idle"))
    assert [each.usd_per_hour for each in plan(*actions, of=of, memory=memory).actions] == [1.0, 0.0, -0.5]


@pytest.mark.parametrize(
    ("action", "usd"),
    [
        (Remove("cpu", MADE, "idle"), -0.5),
        (Remove("gpu", ("gpu-1",), "idle"), None),
        (Drain("cpu", MADE, "idle"), 0),
        (Undrain("cpu", MADE, "wanted"), 0),
        (Repair("cpu", MADE, "lost"), 0),
        (DeleteOrphan(MachineKey("dev", "cpu-9"), "nobody's"), 0),
    ],
)
def test_what_an_action_costs(action: Action, usd: float | None) -> None:
    assert plan(action).actions[0].usd_per_hour == usd


def test_a_fleet_without_a_price_is_not_free() -> None:
    assert "no price" in said(plan(launch("gpu-1")))
    unpriced = plan(launch("cpu-1"), of=spec())
    assert (unpriced.usd_per_hour, unpriced.usd_per_hour_after) == (None, None)
    assert "no price is set" in said(unpriced)


def test_where_there_is_nothing_to_do_that_is_said() -> None:
    assert "nothing: all is as it should be" in said(plan())


def test_the_preview_is_of_the_nodes_that_an_up_makes_or_takes_away() -> None:
    seen = record()
    assert seen.decision is not None
    actions = (launch("cpu-2"), Drain("cpu", ("cpu-3",), "idle"), Remove("cpu", ("cpu-1",), "idle"))
    assert nodes_to_change(replace(seen.decision, actions=actions)) == ("cpu-1", "cpu-2")
    told = said(plan(launch("cpu-2"), preview="\n + Machine cpu-2 create\n"))
    assert "+ Machine cpu-2 create" in told


def test_who_paused_is_told() -> None:
    from tidepool.scaling.ports import Pause

    assert "paused by ada" in said(plan(pause=Pause("ada", NOW)))
