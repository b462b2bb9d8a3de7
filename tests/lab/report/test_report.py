"""The report of a campaign: a page that is whole in itself, one on paper, and what it must say of campaigns that are not whole."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.lab.report.campaigns import SCHEDULERS, MadeUp, made_up, outcome
from tidepool.lab.campaign import Trial
from tidepool.lab.errors import LabError
from tidepool.lab.generators.registry import make_workload
from tidepool.lab.report.elements import Folded, Table
from tidepool.lab.report.figures import answers, differences
from tidepool.lab.report.page import page
from tidepool.lab.report.together import report_of
from tidepool.lab.report.write import write_report
from tidepool.lab.results.store import Results
from tidepool.lab.statistics.comparison import compare_all_schedulers
from tidepool.lab.workload import Death

COMMAND = "tidepool lab run && echo '<done>'"
#: Elements that have no end.
_VOID = {"meta", "br", "img", "link"}


class Reader(HTMLParser):
    """Reads a page: its texts by the element that they are in, what it leads to, its ids; and that all elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.outside: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        assert len(said) == len(attrs), f"an attribute twice: {tag} {attrs}"
        self.links += [said["href"] or ""] if tag == "a" else []
        self.ids += [said["id"] or ""] if "id" in said else []
        self.outside += [value for value in said.values() if value and re.search(r"(https?:)?//", value)]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        if text.strip():
            self.texts.append((self.open[-1] if self.open else "", text.strip()))

    def of(self, tag: str) -> list[str]:
        return [text for inside, text in self.texts if inside == tag]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Results:
    results = made_up(tmp_path_factory.mktemp("results") / "whole", death=Death(2.0, 2, 1.5))
    trial = Trial("slurm", "bag", 2)
    run = results.outcome(trial)
    assert run is not None
    results.write(replace(run, disturbed="the host stole 7 % of the time"), results.workload("bag", 2))
    return results


@pytest.fixture(scope="module")
def written(whole: Results) -> Path:
    return write_report(whole, COMMAND, on_paper=True).page


def test_the_page_is_whole_in_itself(written: Path) -> None:
    text = written.read_text()
    read = Reader(text)
    assert not read.outside
    assert "@import" not in text
    assert "url(http" not in text
    assert len(read.ids) == len(set(read.ids))
    wanted = {one or other for one, other in re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', text)}
    assert wanted <= set(read.ids)
    assert read.links
    assert all((written.parent / link).is_file() for link in read.links)


def test_it_says_all_that_is_asked_of_it(written: Path) -> None:
    read = Reader(written.read_text())
    assert read.of("h2") == [
        "Question",
        "Set-up",
        "Figures",
        "Differences",
        "Utilization over time",
        "Runs, by machine and processor",
        "What schedulers use themselves",
        "What is fair, and what is not",
        "Disturbed trials",
        "How to repeat it",
    ]
    paragraphs = " ".join(read.of("p"))
    assert "incomplete" not in paragraphs
    # Machines are in the order of their numbers.
    assert "3 machines (m-1, m-2 and m-10)" in paragraphs
    cells = read.of("td")
    assert "slurm is better than kubernetes" in cells
    assert "higher, worse" in cells
    assert "the host stole 7 % of the time" in cells
    assert "0.2 & <more>" in cells
    # Beside the trial that was disturbed, and in the sum of the others.
    assert "make <all>" in cells
    row = read.texts.index(("th", "make <all>"))
    assert [text for _, text in read.texts[row + 1 : row + 4]] == ["20", "15", "1.25"]
    assert COMMAND in read.of("code")


def test_what_a_scheduler_does_not_promise_is_said_where_workloads_need_it(written: Path) -> None:
    paragraphs = Reader(written.read_text()).of("p")
    assert any(text.startswith("kubernetes is given jobs of an array one by one") for text in paragraphs)
    # No workload here has gangs.
    assert not any("gang may hold" in text for text in paragraphs)
    assert not any(
        text.startswith("slurm ") and "had 3 machines" not in text for text in paragraphs if "array" in text
    )


def test_every_drawing_has_a_title_and_its_values_behind_it(written: Path) -> None:
    text = written.read_text()
    drawings = text.count("<figure>")
    # Of each workload one of figures, one of utilization, five of runs.
    assert drawings == 14
    assert text.count('role="img" aria-labelledby=') == drawings
    assert (
        text.count("<summary>The values of this drawing</summary><table")
        + text.count("<summary>The values of this drawing</summary>")
        >= drawings
    )
    assert "machine away" in text
    assert "by the processors that processes were bound to" in text
    assert "side by side: Linux chose their processors" in text


def test_every_single_value_lies_beside_it(written: Path) -> None:
    import polars as pl

    values = written.parent / "values"
    table = pl.read_parquet(values / "trials.parquet")
    assert table.height == 2 * 2 * 5 + 1
    assert (values / "processes.csv").read_text().startswith("scheduler,workload,repeat,")


def test_the_paper_is_a_pdf_of_several_pages_that_screen_readers_can_read(written: Path) -> None:
    paper = (written.parent / "report.pdf").read_bytes()
    assert paper.startswith(b"%PDF-")
    ends = re.fullmatch(rb".*startxref\s+(\d+)\s+%%EOF\s*", paper, re.DOTALL)
    assert ends is not None
    assert paper[int(ends[1]) :].startswith(b"xref")
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) > 4
    assert b"Laboratory whole: slurm and kubernetes on the same machines" in paper
    assert b"pdfuaid" in paper
    # A text for each drawing.
    assert paper.count(b"/Alt") >= 14


def test_an_older_paper_goes_when_the_page_is_written_anew_without(tmp_path: Path) -> None:
    results = made_up(tmp_path / "small", repeats=1, trials=0)
    assert write_report(results, COMMAND, on_paper=True).paper == tmp_path / "small" / "report" / "report.pdf"
    assert write_report(results, COMMAND, on_paper=False).paper is None
    assert not (tmp_path / "small" / "report" / "report.pdf").exists()


@pytest.mark.parametrize("trials", [0, 2, 3])
def test_a_campaign_that_is_not_whole_is_never_shown_as_one(tmp_path: Path, trials: int) -> None:
    results = made_up(tmp_path / "killed", repeats=2, trials=trials)
    done = max(0, trials - 2)
    read = Reader(page(report_of(results, [], COMMAND)))
    assert f"(incomplete: {done} of 8 trials)" in read.of("title")[0]
    assert f"(incomplete: {done} of 8 trials)" in read.of("h1")[0]
    assert read.of("p")[0].startswith(f"These results are incomplete: {8 - done} trials of 8 are missing.")
    assert "Differences" not in read.of("h2")
    assert not any("better than" in text or "no difference" in text.lower() for _, text in read.texts)
    assert all("so far" in text for text in read.of("h3") if "medians" in text)


def test_one_scheduler_is_compared_with_nobody(tmp_path: Path) -> None:
    read = Reader(
        page(report_of(made_up(tmp_path / "one", {"slurm": SCHEDULERS["slurm"]}, repeats=1), [], COMMAND))
    )
    assert "There was one scheduler: nothing is compared." in read.of("p")
    assert "Differences" not in read.of("h2")


def test_two_that_are_alike_are_not_told_apart(tmp_path: Path) -> None:
    alike = {"one": MadeUp(0.3, "array"), "other": MadeUp(0.3, "array")}
    found = compare_all_schedulers(made_up(tmp_path / "alike", alike))
    said = {row[3] for row in answers(found, ("submit_to_start_seconds",)).rows}
    assert said <= {f"no difference is shown between {both}" for both in ("one and other", "other and one")}
    assert said
    tables = [
        each for element in differences(found) if isinstance(element, Folded) for each in element.elements
    ]
    assert {each.title for each in tables if isinstance(each, Table)} == {"No difference shown"}


def test_of_three_the_two_best_that_are_alike_are_both_named(tmp_path: Path) -> None:
    three = {"slow": MadeUp(1.2, ""), "one": MadeUp(0.3, ""), "other": MadeUp(0.3, "")}
    found = compare_all_schedulers(made_up(tmp_path / "three", three, workloads=("bag",)))
    ((_, _, order, answer),) = answers(found, ("makespan_seconds",)).rows
    assert order.split()[-2] == "slow"
    assert re.fullmatch(
        r"no difference is shown between (one|other) and (one|other); (one|other) is better than slow", answer
    )


def test_a_scheduler_under_which_nothing_ran_leaves_a_report(tmp_path: Path) -> None:
    results = made_up(tmp_path / "refused", repeats=1, trials=2)
    for workload in ("bag", "array"):
        for name, scheduler in SCHEDULERS.items():
            trial = Trial(name, workload, 1)
            seed = results.campaign.seed_of(workload, 1)
            jobs = make_workload(workload, workload, {}, seed)
            run = outcome(trial, jobs, scheduler)
            refused = tuple(
                replace(job, accepted_s=None, processes=(), state="REFUSED", succeeded=False)
                for job in run.jobs
            )
            results.write(replace(run, jobs=refused, usage=(), host=(), requests={}), jobs)
    assert results.is_whole
    read = Reader(page(report_of(results, [], COMMAND)))
    assert "What schedulers use themselves" not in read.of("h2")
    assert "jobs that it refused" in read.of("th")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    results = made_up(tmp_path / "full", repeats=1, trials=0)
    (tmp_path / "full" / "report").write_text("in the way")
    with pytest.raises(LabError, match="cannot be written"):
        write_report(results, COMMAND, on_paper=False)
