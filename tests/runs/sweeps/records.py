"""Sweeps of tests, and runs of them as their records tell."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network

from tests.cluster.specs import spec_mapping
from tests.runs.workloads import mapping
from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.relocation import in_network
from tidepool.cluster.spec_changes import with_changes
from tidepool.runs.record import Cost, Order, Outcome, Run, RunJob
from tidepool.runs.sweeps.sweep import Point, Sweep, SweepRun, Variation, combinations

AT = datetime(2026, 11, 27, 20, tzinfo=UTC)


def sweep(*variations: Variation, repeat: int = 2) -> Sweep:
    """A sweep of these, or of the CPUs of a fleet's nodes."""
    found = combinations(variations or [Variation("fleets.cpu.shape.cpus", (2, 4))])
    points = [
        Point(
            FrozenDict({each.path: each.value for each in changes}),
            frozen(with_changes(spec_mapping(), changes)[0]),
        )
        for changes in found
    ]
    runs = tuple(SweepRun(f"r{n}-{p}", p) for n in range(repeat) for p in range(len(points)))
    return Sweep("s1", AT, "ada", "dev", frozen(mapping()), tuple(points), runs)


def ended(
    swept: Sweep, id: str, seconds: float, outcome: Outcome = "succeeded", usd: float = 0.0, cpus: int = 2
) -> Run:
    """The run, which took so long, with a job that had ``cpus`` for half of it, on one node for all of it."""
    point = next(each.point for each in swept.runs if each.id == id)
    networks = IPv4Network("10.77.0.0/16"), IPv4Network("10.9.0.0/16")
    spec = {**in_network(json.loads(json.dumps(swept.points[point].spec)), *networks), "name": id}
    job = {
        "Start": AT.isoformat(),
        "End": (AT + timedelta(seconds=seconds / 2)).isoformat(),
        "CPUTimeRAW": f"{cpus * seconds / 2}",
    }
    run = Run(id, Order("physics", id, AT, "ada", "s3://b/x", FrozenDict(), frozen(spec)))
    return replace(
        run,
        phase="done",
        outcome=outcome,
        because="" if outcome == "succeeded" else "of 1 jobs 1 failed: first",
        ended=AT + timedelta(seconds=seconds),
        jobs=(RunJob("first", 1, "succeeded", "", frozen(job)),),
        cost=Cost(usd, FrozenDict({"": 5.0, "cpu": seconds / 3600})),
    )
