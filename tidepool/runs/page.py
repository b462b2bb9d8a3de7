"""A page of a run's record as HTML, whole in itself: what came of it, when, at which cost, and where each output is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from urllib.parse import quote

from tidepool.html import document, table
from tidepool.runs.record import Run
from tidepool.runs.timeline import timeline


def page(run: Run) -> str:
    """Return the page of a run, under way or ended. Links to outputs are relative to the folder of its results."""
    return document(
        run.id,
        (
            *_outcome(run),
            timeline(run),
            *table("When", ("phase", "began, UTC", "seconds"), _phases(run)),
            *table("Jobs", ("job", "id", "outcome", "", "nodes", "seconds", "CPU seconds"), _jobs(run)),
            *table(
                "Outputs",
                ("file", "bytes", "", "SHA-256"),
                _outputs(run),
                link=lambda path: f"outputs/{quote(path)}",
            ),
            *table("Machines", ("fleet", "node hours"), _machines(run)),
            *table("Images", ("image", "digest"), run.images.items()),
        ),
    )


def _outcome(run: Run) -> Iterable[str]:
    outcome = run.outcome or run.phase
    yield f'<p><strong class="{escape(outcome)}">{escape(outcome)}</strong>{f": {escape(run.because)}" if run.because else ""}</p>'
    order = run.order
    asked = f"Asked for by {escape(order.by)} on {_time(order.at)}, results at <code>{escape(order.results)}</code>."
    cost = f" Its machines cost {run.cost.usd:.2f} USD." if run.cost.usd else ""
    nodes = f" Nodes: {escape(', '.join(run.nodes))}." if run.nodes else ""
    yield f"<p>{asked}{cost}{nodes}</p>"
    if run.unmatched:
        yield f"<p>Nothing matched: <code>{escape(', '.join(run.unmatched))}</code>.</p>"
    if "running" in run.began and not run.is_home_done:
        yield "<p>Not all outputs are here: what is missing is on the volume of /home, which was kept.</p>"


def _phases(run: Run) -> Iterable[Sequence[str]]:
    began = sorted((at, name) for name, at in run.began.items() if "/" not in name)
    for i, (at, name) in enumerate(began):
        ends = began[i + 1][0] if i + 1 < len(began) else run.ended
        yield name, _time(at), "" if ends is None or name == "done" else f"{(ends - at).total_seconds():.1f}"


def _jobs(run: Run) -> Iterable[Sequence[str]]:
    for job in run.jobs:
        had = job.accounting
        yield (
            *(job.name, str(job.job_id), job.standing, job.text),
            *(had.get(name, "") for name in ("NodeList", "ElapsedRaw", "CPUTimeRAW")),
        )


def _machines(run: Run) -> Iterable[Sequence[str]]:
    for fleet, hours in run.cost.node_hours.items():
        yield fleet or "the cluster's own", f"{hours:.3f}"


def _outputs(run: Run) -> Iterable[Sequence[str]]:
    for output in run.outputs:
        there = "verified" if output.is_verified else "there, not verified" if output.is_kept else "missing"
        yield output.path, str(output.size), there, output.sha256


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
