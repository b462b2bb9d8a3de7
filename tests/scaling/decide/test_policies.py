"""Policies: what each asks for, and what they come to together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.scaling.decide.cluster_states import AT, fleet, spec
from tidepool.cluster.part_reading import models_in
from tidepool.cluster.scaling import Backlog, Queue, Scaling, Schedule
from tidepool.scaling.decide.policies import POLICIES, Floor, holds_at, wants


def asked(*policies: Any, **of: Any) -> Any:
    return wants(spec(fleet(**of), scaling={"policies": list(policies)}), AT)


def test_every_policy_of_the_spec_has_one_here() -> None:
    named = set(models_in(Scaling.model_fields["policies"].annotation))
    assert {Queue, Backlog} < named == POLICIES.keys()


def test_the_queue_and_the_backlog_serve_jobs() -> None:
    assert (asked("queue").serves_jobs, asked("queue").horizon_s) == (True, None)
    backlog = asked({"name": "backlog", "minutes": 30})
    assert (backlog.serves_jobs, backlog.horizon_s) == (True, 1800)
    assert not asked().serves_jobs


def test_floors_have_their_reasons() -> None:
    found = asked({"name": "warm", "fleet": "cpu", "nodes": 3}, min_nodes=2).floors
    assert found == (
        Floor("cpu", 2, "min_nodes is 2", is_for_ever=True),
        Floor("cpu", 3, "3 are kept warm", is_spare=True),
    )


def test_of_two_caps_the_lower_holds_where_a_spec_made_in_python_has_both() -> None:
    caps = asked({"name": "account", "account": "ada", "max_nodes": 3}).caps
    assert caps == {"ada": 3}


def schedule(begin: str, end: str, **changes: Any) -> Schedule:
    return Schedule(name="schedule", fleet="cpu", nodes=2, begin=begin, end=end, **changes)


# 2026-11-21 is a Saturday.
@pytest.mark.parametrize(
    ("window", "at", "within"),
    [
        (schedule("08:00", "18:00"), "2026-11-21 08:00", True),
        (schedule("08:00", "18:00"), "2026-11-21 07:59", False),
        (schedule("08:00", "18:00"), "2026-11-21 18:00", False),
        (schedule("08:00", "18:00", days=("mon", "fri")), "2026-11-21 12:00", False),
        (schedule("08:00", "18:00", days=("sat",)), "2026-11-21 12:00", True),
        # Over midnight: it belongs to the day on which it begins.
        (schedule("22:00", "06:00", days=("fri",)), "2026-11-21 05:59", True),
        (schedule("22:00", "06:00", days=("fri",)), "2026-11-21 22:30", False),
        (schedule("22:00", "06:00", days=("fri",)), "2026-11-20 22:30", True),
        (schedule("22:00", "06:00", days=("mon",)), "2026-11-23 05:00", False),
        (schedule("00:00", "00:00"), "2026-11-21 13:00", True),
        # By the clock on the wall there, in winter and in summer.
        (schedule("08:00", "18:00", timezone="Europe/Zurich"), "2026-11-21 07:30", True),
        (schedule("08:00", "18:00", timezone="Europe/Zurich"), "2026-07-21 06:30", True),
        (schedule("08:00", "18:00", timezone="Europe/Zurich"), "2026-11-21 06:30", False),
        (schedule("08:00", "18:00", days=("sun",), timezone="Pacific/Auckland"), "2026-11-21 20:00", True),
    ],
)
def test_hours(window: Schedule, at: str, within: bool) -> None:
    assert holds_at(window, datetime.fromisoformat(at).replace(tzinfo=UTC)) is within
