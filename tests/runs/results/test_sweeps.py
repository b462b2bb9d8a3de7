"""Sweeps beside the results: they are opened again from the records alone, with page and charts."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.runs.sweeps.records import ended, sweep
from tidepool.charts import DrawingError
from tidepool.runs.ports import RunError
from tidepool.runs.record import Run, to_json
from tidepool.runs.results.folder import FolderStore
from tidepool.runs.results.sweeps import StoredSweeps, draw
from tidepool.runs.sweeps.page import columns, rows_of, to_document


class Page(HTMLParser):
    """The texts of cells, the pictures and the links of a page that is well formed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "a"):
            self.cells.append(data)


def _write(store: FolderStore, *runs: Run) -> None:
    for run in runs:
        store.write(f"{run.id}/run.json", to_json(run).encode())


def test_a_sweep_is_opened_again_from_the_records_alone(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    swept, sweeps = sweep(), StoredSweeps(store)
    sweeps.write(swept)
    _write(
        store,
        ended(swept, "r0-0", 100, usd=1),
        ended(swept, "r1-0", 140, usd=1.4),
        ended(swept, "r0-1", 60, usd=2),
        ended(swept, "r1-1", 9, "failed"),
    )
    found = StoredSweeps(FolderStore(tmp_path)).compared(sweeps.read("s1"))
    assert columns(found)[:4] == ("fleets.cpu.shape.cpus", "runs", "time, s", "jobs, s")
    assert [row[:5] for row in map(tuple, rows_of(found))] == [
        ("2", "2 of 2", "120 (100 to 140)", "60 (50 to 70)", "1.2 (1 to 1.4)"),
        ("4", "1 of 2", "60", "30", "2"),
    ]
    assert sweeps.publish(found).endswith("/sweeps/s1/index.html")
    files = {each.name for each in (tmp_path / "sweeps/s1").iterdir()}
    assert files == {"sweep.json", "index.html", "chart.svg", "chart.png"}
    page = Page((tmp_path / "sweeps/s1/index.html").read_text())
    assert "of 1 jobs 1 failed: first" in page.cells
    assert "chart.svg" in page.links
    for link in page.links[1:]:
        assert (tmp_path / "sweeps/s1" / link).parent.is_dir(), link
    told = to_document(found)
    assert [each["time_s"] and each["time_s"]["median"] for each in told["points"]] == [120, 60]
    assert {each["run"]: each["outcome"] for each in told["runs"]}["r1-1"] == "failed"


def test_where_nothing_has_succeeded_the_page_says_so_and_there_is_no_chart(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    swept, sweeps = sweep(repeat=1), StoredSweeps(store)
    _write(store, ended(swept, "r0-0", 9, "failed"))
    found = sweeps.compared(swept)
    sweeps.publish(found)
    assert {each.name for each in (tmp_path / "sweeps/s1").iterdir()} == {"index.html"}
    cells = Page((tmp_path / "sweeps/s1/index.html").read_text()).cells
    assert "not begun" in cells
    with pytest.raises(DrawingError):
        draw(found, tmp_path / "a.svg")


def test_one_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    sweeps = StoredSweeps(FolderStore(tmp_path))
    with pytest.raises(RunError, match="there is none at all"):
        sweeps.read("s1")
    sweeps.write(sweep())
    with pytest.raises(RunError, match="is not there; there are s1"):
        sweeps.read("s2")
    (tmp_path / "sweeps/s1/sweep.json").write_text("{}")
    with pytest.raises(RunError, match="it is no record of a sweep"):
        sweeps.read("s1")
