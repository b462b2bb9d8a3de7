"""`write_report`: the page, on paper where it is asked for, and every single value beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.lab.errors import LabError
from tidepool.lab.report.page import page
from tidepool.lab.report.paper import write_paper
from tidepool.lab.report.together import report_of
from tidepool.lab.results.frames import FRAMES, export
from tidepool.lab.results.store import Results

#: In the campaign's folder.
FOLDER: Final = "report"
PAGE: Final = "index.html"
PAPER: Final = "report.pdf"
VALUES: Final = "values"
#: What each of the exported frames holds, for people.
_HOLDS: Final[Mapping[str, str]] = {
    "trials": "all trials, and why some do not count",
    "figures": "each figure of each trial",
    "jobs": "each job: when it was submitted, ready, started and ended",
    "processes": "each process: where and when it ran",
    "process_figures": "what kernels measured in each process",
    "scheduler_times": "the schedulers' own times of jobs, by their own names",
    "usage": "what the schedulers' programs used, sampled",
    "host": "the machine that all ran on, sampled",
    "environment": "versions and settings of each trial, and requests to the scheduler",
}


@dataclass(frozen=True, slots=True)
class Written:
    """The files of a report; ``paper`` is None where none was asked for."""

    page: Path
    paper: Path | None
    values: Sequence[Path]


def write_report(results: Results, command: str, *, on_paper: bool) -> Written:
    """Write the report of a campaign into its folder; an older one there is replaced. ``command`` runs the campaign again.

    Raises:
        LabError: results cannot be read, or a file cannot be written.
    """
    folder = results.folder / FOLDER
    values = export(results, folder / VALUES)
    files = [(f"{VALUES}/{name}.csv", f"{_HOLDS[name]}; as Parquet beside it") for name in FRAMES]
    report = report_of(results, files, command)
    paper = folder / PAPER
    try:
        # One of an older state of the campaign would be taken for this one's.
        paper.unlink(missing_ok=True)
        (folder / PAGE).write_text(page(report), encoding="utf-8")
    except OSError as error:
        raise LabError(
            f"{error.filename} cannot be written: {error.strerror}; free some space, or see to its rights"
        ) from error
    if on_paper:
        write_paper(report, paper)
    return Written(folder / PAGE, paper if on_paper else None, values)
