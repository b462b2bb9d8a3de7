"""A run over time as SVG: its phases, and below them when each job ran and how it ended. Text alone, for it is drawn at each run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final

from tidepool.runs.record import Run

_WIDTH: Final = 760
_LEFT: Final = 150
_ROW: Final = 20
#: Of many jobs the first are drawn, so that a page of thousands can be read.
_MOST: Final = 60
_COLOURS: Final = {
    "phase": "#9db8d6",
    "succeeded": "#3f9a5b",
    "failed": "#c0443c",
    "cancelled": "#c98a2b",
    "lost": "#7a4fa3",
}
_OTHER: Final = "#8f8f8f"


@dataclass(frozen=True, slots=True)
class _Bar:
    name: str
    begins: datetime
    ends: datetime
    colour: str
    text: str


def timeline(run: Run) -> str:
    """Return the drawing; empty where nothing has lasted yet."""
    bars = [*_phases(run), *_jobs(run)]
    if not bars:
        return ""
    begins, ends = min(bar.begins for bar in bars), max(bar.ends for bar in bars)
    span = max((ends - begins).total_seconds(), 0.001)
    scale = (_WIDTH - _LEFT - 60) / span
    height = _ROW * (len(bars) + 1)
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
            'font-family="sans-serif" font-size="12" fill="currentColor" role="img">'
        ),
        f"<title>{escape(run.id)}: phases and jobs, {span:.1f} s</title>",
    ]
    for row, bar in enumerate(bars):
        x = _LEFT + (bar.begins - begins).total_seconds() * scale
        width = max(1.0, (bar.ends - bar.begins).total_seconds() * scale)
        y = row * _ROW + 4
        lines += [
            f'<text x="{_LEFT - 8}" y="{y + 11}" text-anchor="end">{escape(bar.name[:22])}</text>',
            (
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 6}" fill="{bar.colour}">'
                f"<title>{escape(bar.text)}</title></rect>"
            ),
            f'<text x="{x + width + 4:.1f}" y="{y + 11}">{_seconds(bar)}</text>',
        ]
    lines += [
        f'<text x="{_LEFT}" y="{height - 6}">{begins.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC</text>',
        "</svg>",
    ]
    return "\n".join(lines)


def _phases(run: Run) -> Iterator[_Bar]:
    began = sorted((at, name) for name, at in run.began.items() if "/" not in name and name != "done")
    for i, (at, name) in enumerate(began):
        ends = began[i + 1][0] if i + 1 < len(began) else run.ended
        if ends is not None:
            yield _Bar(name, at, ends, _COLOURS["phase"], name)


def _jobs(run: Run) -> Iterator[_Bar]:
    ran = [job for job in run.jobs if "Start" in job.accounting]
    for job in ran[:_MOST]:
        begins, ends = (datetime.fromisoformat(job.accounting[each]) for each in ("Start", "End"))
        nodes = job.accounting.get("NodeList", "")
        yield _Bar(job.name, begins, ends, _COLOURS.get(job.standing, _OTHER), f"{job.standing} on {nodes}")


def _seconds(bar: _Bar) -> str:
    seconds = (bar.ends - bar.begins).total_seconds()
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"
