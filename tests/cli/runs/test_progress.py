"""Progress of a run: a line that says all at one look, events of what changed, and exit codes that say which part failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tidepool.cli.runs.progress import EXIT_CODES, events, exit_code, line, sent_event
from tidepool.cluster.frozen import FrozenDict
from tidepool.runs.record import Cost, Order, Outcome, Output, Phase, Run, RunJob

AT = datetime(2026, 11, 27, 20, tzinfo=UTC)
RUN = Run("r1", Order("physics", "r1", AT, "ada", "s3://b/x", FrozenDict(), FrozenDict(), 3600, 5.0))


def test_a_line_says_all_at_one_look() -> None:
    run = replace(
        RUN,
        phase="collecting",
        jobs=(RunJob("a", 1, "succeeded"), RunJob("b", 2, "succeeded"), RunJob("c", 3, "failed")),
        outputs=(Output("x", 2_500_000, "", is_kept=True), Output("y", 1, "")),
        cost=Cost(0.256),
        text="the server is busy",
    )
    assert line(run, AT + timedelta(seconds=65)) == (
        "collecting | jobs 1 failed, 2 succeeded | results 1 of 2, 2.5 MB of 2.5 MB | 0.26 of 5 USD | 1:05 | 58:55 left | "
        "the server is busy"
    )
    assert (
        line(replace(RUN, order=replace(RUN.order, deadline_s=None)), AT + timedelta(hours=2))
        == "checked    | 2:00:00"
    )


def test_bytes_that_are_there_are_told() -> None:
    run = replace(RUN, phase="collecting", outputs=(Output("x", 3_000_000, ""), Output("y", 1_000_000, "")))
    assert "results 0 of 2, 2.0 MB of 4.0 MB" in line(run, AT, 2_000_000)
    # What was sent once more is not more.
    assert "results 0 of 2, 4.0 MB |" in line(run, AT, 9_000_000)
    event = sent_event(run, AT, 2_000_000)
    assert (event["event"], event["bytes"], event["of"]) == ("sent", 2_000_000, 4_000_000)


def test_events_say_what_changed_and_nothing_else() -> None:
    (first,) = events(None, RUN, AT)
    assert (first["event"], first["phase"], first["run"]) == ("phase", "checked", "r1")
    assert list(events(RUN, RUN, AT)) == []
    before = replace(RUN, phase="running", jobs=(RunJob("a", 1, "running"), RunJob("b", 2, "held")))
    after = replace(
        before,
        phase="collecting",
        jobs=(RunJob("a", 1, "failed", "FAILED"), RunJob("b", 2, "held")),
        outputs=(Output("x", 3, "ff", is_kept=True), Output("y", 3, "ff")),
        cost=Cost(1.5),
        text="wait",
    )
    found = list(events(before, after, AT))
    assert [event["event"] for event in found] == ["phase", "job", "output", "cost", "text"]
    assert found[1]["job"] == "a"
    assert found[1]["standing"] == "failed"
    assert found[2]["path"] == "x"


@pytest.mark.parametrize(
    ("outcome", "turned_in", "code"),
    [
        ("succeeded", None, 0),
        ("deadline", "running", 20),
        ("budget", "running", 21),
        ("cancelled", "up", 22),
        *(("failed", phase, code) for phase, code in EXIT_CODES.items()),
    ],
)
def test_the_exit_code_says_which_part_failed(outcome: Outcome, turned_in: Phase | None, code: int) -> None:
    assert exit_code(replace(RUN, phase="done", outcome=outcome, turned_in=turned_in)) == code
