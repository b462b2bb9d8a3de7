"""Random workloads, limits, faults of all that is around a run, cancels, and drivers killed at any call, on several machines.

At the end, always: it has ended, nothing of the cluster is left, no job ran twice, nothing was uploaded twice under one name,
and what the results lack is still on /home and in the record.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given

from tests.properties import chances, comes, runs
from tests.runs.workloads import job
from tests.runs.world import Killed, World, check
from tidepool.runs.ports import NotOrdered

pytestmark = pytest.mark.slow

PORTS = (
    "cluster.see", "cluster.up", "cluster.down", "cluster.use", "jobs.see", "jobs.submit", "jobs.release", "jobs.stop",
    "files.stage", "files.list", "files.upload", "files.verify", "files.abandon", "records.claim", "records.publish",
)  # fmt: skip
#: After so many calls nothing happens any more: then it has to end.
LAST = 300


def _world(chance: Random, folder: Path) -> World:
    names = [f"j{i}" for i in range(chance.randint(1, 5))]
    jobs = [
        job(
            name,
            after=[
                {"job": before, "ends": chance.choice(["ok", "ok", "any", "notok"])}
                for before in names[:i]
                if chance.random() < 0.4
            ],
        )
        for i, name in enumerate(names)
    ]
    limits: dict[str, Any] = {
        "deadline_s": chance.choice([None, None, 20, 90, 400]),
        "budget_usd": chance.choice([None, None, 0.05, 0.5]),
        "keep_on_failure_s": chance.choice([0, 0, 600]),
    }
    return World.of(
        folder,
        *jobs,
        outputs=chance.choice([("out/*",), ("out/*", "*.h5"), ()]),
        lengths={name: chance.choice([1.0, 30.0, 3000.0]) for name in names},
        failing_jobs=frozenset(name for name in names if chance.random() < 0.1),
        spoiled={f"out/{name}" for name in names if chance.random() < 0.1},
        **limits,
    )


def _happenings(world: World, chance: Random, came: Counter[str]) -> None:
    often = chance.choice([0.0, 0.01, 0.05])

    def happens(call: str, after: bool) -> None:
        if len(world.calls) > LAST:
            world.faults.clear()
            return
        if chance.random() >= often:
            return
        match chance.randrange(10):
            case 0 | 1 | 2 | 3:
                came["kills"] += 1
                raise Killed
            case 4 | 5:
                world.faults.add(chance.choice(PORTS))
            case 6 | 7:
                world.faults.clear()
            case 8 if chance.random() < 0.3:
                world.lose()
            case 9 if chance.random() < 0.5:
                journal = world.journal(world.machine)
                try:
                    journal.cancel("physics-run-1", "bob")
                    came["cancels"] += 1
                except NotOrdered:
                    pass
                finally:
                    journal.close()

    world.happens = happens


@comes(succeeded=10, failed=10, deadline=10, budget=5, cancelled=3, kills=50, elsewhere=20)
def test_it_ends_and_nothing_is_left(came: Counter[str]) -> None:
    @given(chances())
    @runs(150)
    def property(chance: Random) -> None:
        with tempfile.TemporaryDirectory(prefix="runs-") as folder:
            world = _world(chance, Path(folder))
            _happenings(world, chance, came)
            world.begin()
            run = None
            for _ in range(500):
                if (run := world.drive(world.machine)) is not None:
                    break
                # Before there is a copy only the machine that began it can go on, and nothing was made.
                world.machine = chance.choice([0, 0, 1, 2]) if world.copy else 0
                came["elsewhere"] += world.machine != 0
            assert run is not None
            check(world, run)
            came[run.outcome] += 1

    property()
