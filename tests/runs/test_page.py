"""The page of a run: all that the record has, as HTML that is well formed, whatever files and jobs are called."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

from tidepool.cluster.frozen import FrozenDict
from tidepool.runs.page import page
from tidepool.runs.record import Cost, Order, Output, Run, RunJob

AT = datetime(2026, 11, 27, 20, tzinfo=UTC)
RUN = Run(
    "r1",
    Order("physics", "r1", AT, "ada", "s3://b/x", FrozenDict(), FrozenDict()),
    phase="done",
    began=FrozenDict(
        {
            "checked": AT,
            "running": AT + timedelta(seconds=30),
            "running/released": AT,
            "done": AT + timedelta(seconds=90),
        }
    ),
    ended=AT + timedelta(seconds=90),
    outcome="failed",
    because="of 2 jobs 1 failed: b",
    nodes=("cpu-1",),
    images=FrozenDict({"debian-12": "sha256:1"}),
    cost=Cost(1.234),
    jobs=(
        RunJob(
            "a", 1, "succeeded", "", FrozenDict({"NodeList": "cpu-1", "ElapsedRaw": "7", "CPUTimeRAW": "14"})
        ),
        RunJob("b", 2, "failed", "FAILED"),
    ),
    outputs=(
        Output("out/<b>&\"x' ?#.dat", 3, "ff", is_kept=True, is_verified=True),
        Output("y", 1_000_000, "ee"),
    ),
    unmatched=("*.h5",),
)


class Reader(HTMLParser):
    """Reads a page's texts, and that all tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(run: Run) -> Reader:
    reader = Reader()
    reader.feed(page(run))
    reader.close()
    assert reader.open == []
    return reader


def test_a_page_has_all_of_a_record() -> None:
    hours = FrozenDict({"": 2.5, "cpu": 0.125})
    reader = read(replace(RUN, cost=replace(RUN.cost, node_hours=hours)))
    said = " ".join(reader.texts)
    for text in (
        "failed", "of 2 jobs 1 failed: b", "ada", "s3://b/x", "1.23 USD", "cpu-1", "sha256:1", "2026-11-27 20:00:30", "60.0",
        "14", "verified", "missing", "1000000", "*.h5", "which was kept", "2.500", "0.125", "out/<b>&\"x' ?#.dat",
    ):  # fmt: skip
        assert text in said, text
    assert reader.links == ["outputs/out/%3Cb%3E%26%22x%27%20%3F%23.dat", "outputs/y"]


def test_a_page_of_a_run_that_just_began_is_short() -> None:
    reader = read(replace(Run("r1", RUN.order), began=FrozenDict({"checked": AT})))
    assert "Jobs" not in reader.texts
    assert "checked" in reader.texts
