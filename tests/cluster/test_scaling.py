"""How a spec says that its cluster breathes, and what is said of mistakes in it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.specs import spec_mapping
from tidepool.cluster.scaling import DAYS, Queue, Schedule
from tidepool.cluster.spec_reading import SpecError, read_spec


def said(*policies: Any, **others: Any) -> list[str]:
    """What is said of these policies."""
    with pytest.raises(SpecError) as refused:
        read_spec(spec_mapping(scaling={"policies": list(policies), **others}))
    return [str(mistake) for mistake in refused.value.mistakes]


def test_the_queue_is_served_where_nothing_is_said() -> None:
    scaling = read_spec(spec_mapping()).scaling
    assert scaling.policies == (Queue(),)
    assert (scaling.mode, scaling.boot_timeout_s) == ("slots", 60)


def test_policies_are_names_or_more() -> None:
    window = {"name": "schedule", "fleet": "cpu", "nodes": 2, "begin": "08:00", "end": "18:00"}
    scaling = read_spec(spec_mapping(scaling={"policies": ["queue", window]})).scaling
    assert scaling.policies[0] == Queue()
    assert isinstance(scaling.policies[1], Schedule)
    assert (scaling.policies[1].days, scaling.policies[1].timezone) == (DAYS, "UTC")


def test_all_mistakes_are_told_at_once_each_at_its_key() -> None:
    mistakes = said(
        "queu",
        {"name": "warm", "flet": "cpu", "nodes": 1},
        {
            "name": "schedule",
            "fleet": "cpx",
            "nodes": 0,
            "begin": 480,
            "end": "24:30",
            "timezone": "Mars/Tharsis",
        },
        3,
        {"nodes": 3},
        mood="calm",
    )
    assert [mistake.partition(":")[0].partition(" ")[0] for mistake in mistakes] == [
        "scaling.policies[0].name",
        "scaling.policies[1].fleet",
        "scaling.policies[1].flet",
        "scaling.policies[2].nodes",
        "scaling.policies[2].begin",
        "scaling.policies[2].end",
        "scaling.policies[2].timezone",
        "scaling.policies[3]",
        "scaling.policies[4].name",
        "scaling.mood",
        "scaling.policies[2].fleet",
    ]
    text = "\n".join(mistakes)
    assert "did you mean queue? known here: queue, backlog, warm, schedule, account" in text
    assert "did you mean fleet? known here: name, fleet, nodes" in text
    assert "did you mean mode?" in text
    assert 'write a time of day in quotes, as "08:00"' in text
    assert "a time zone of the IANA database" in text


@pytest.mark.parametrize(
    ("policies", "mistake"),
    [
        (
            ("queue", {"name": "backlog", "minutes": 5}),
            "scaling.policies[1].name = 'backlog': scaling.policies[0] (queue) is one already; leave one of them out",
        ),
        (
            ({"name": "warm", "fleet": "gpux", "nodes": 1},),
            "scaling.policies[0].fleet = 'gpux': there is no such fleet; did you mean gpu? known here: cpu, gpu",
        ),
        (
            ({"name": "warm", "fleet": "cpu", "nodes": 17},),
            "scaling.policies[0].nodes = 17: more than max_nodes of cpu, which is 16; lower it or raise that",
        ),
        (
            ({"name": "warm", "fleet": "cpu", "nodes": 0},),
            "scaling.policies[0].nodes = 0: it asks for no node; write how many here, or as suspended",
        ),
        (
            ({"name": "warm", "fleet": "cpu", "nodes": 0, "suspended": 1},),
            "scaling.policies[0].suspended = 1: infrastructure local does not suspend machines: leave it out, or have them from libvirt",
        ),
        (
            (
                {"name": "account", "account": "ada", "max_nodes": 1},
                {"name": "account", "account": "ada", "max_nodes": 2},
            ),
            "scaling.policies[1].account = 'ada': scaling.policies[0] caps it already; leave one out",
        ),
    ],
)
def test_policies_that_do_not_agree(policies: tuple[Any, ...], mistake: str) -> None:
    assert said(*policies) == [mistake]
