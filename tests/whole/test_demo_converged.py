"""`make demo-converged`: machines move with jobs and pods that come in turns, all is right, and what is wrong is told."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from demo.moving import JobTurn, Moved, PodTurn, complaints
from demo.pods import PodRecord
from demo.turns import PodWave, Tasks, is_stamp, turns
from tests.golden import CONVERGED, golden_store
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import LONG_S, ROOT
from tests.whole.pools import PoolCluster
from tidepool.conversion.record import Conversion, Order

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
WAVE = PodTurn(PodWave("first", 1), 0.0)
POD = PodRecord("first-0", "Succeeded", "shared-1", NOW, "shared-1 10 12", 0)
CONVERSION = Conversion(
    1, Order("shared-1", "shared", "kubernetes", NOW, "scaler", "pods wait"), "slurm", "done"
)


@pytest.mark.slow
@needs_kubernetes
def test_the_demo_moves_machines_and_ends_with_all_done(tmp_path: Path) -> None:
    cluster = PoolCluster.make(tmp_path, golden_store("debian-12", CONVERGED), "demo")
    (cluster.folder / "demo").symlink_to(ROOT / "demo")
    spec = yaml.safe_load((ROOT / "Pulumi.converged.yaml").read_text())["config"]["cluster:spec"]
    (pool,) = spec["pools"]
    cluster.spec = {
        **spec,
        "name": "demo",
        "pools": [{**pool, "machines": 2, "idle_s": 1, "minimum_stay_s": 1}],
    }
    cluster.write_spec()
    described = cluster.file.read_bytes()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "demo.converged", "--stack", "demo", "--turns", "3"],
            cwd=cluster.folder,
            env=cluster.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * LONG_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "All jobs are COMPLETED and all pods Succeeded" in done.stdout
        assert "Slurm to Kubernetes" in done.stdout
        assert "Kubernetes to Slurm" in done.stdout
        for name in ("conversions.csv", "conversions.svg", "conversions.png"):
            assert (cluster.folder / "charts" / name).stat().st_size > 0
        # What it goes on with: the cluster is up, and the stack's file is as it was.
        assert cluster.run("pool", "show").returncode == 0
        assert cluster.file.read_bytes() == described
    finally:
        cluster.down()


def test_what_is_wrong_is_told() -> None:
    well = Moved("shared", (), (replace(WAVE, seen=(POD,)),), {}, (CONVERSION,))
    assert list(complaints(well)) == []

    def told(pod: PodRecord | None = POD, conversion: Conversion = CONVERSION) -> list[str]:
        turn = replace(WAVE, seen=(pod,) if pod else ())
        return list(complaints(replace(well, pods=(turn,), conversions=(conversion,))))

    assert told(None) == ["pod first-0 is gone, not Succeeded"]
    assert told(replace(POD, phase="Failed")) == ["pod first-0 is Failed, not Succeeded"]
    assert told(replace(POD, said="oops")) == ["pod first-0 says 'oops', and was begun 1 times"]
    assert "begun 2 times" in told(replace(POD, restarts=1))[0]
    assert told(conversion=replace(CONVERSION, phase="failed", text="no kubelet"))[0].endswith(
        "failed: no kubelet"
    )
    assert told(conversion=replace(CONVERSION, phase="stopped")) == ["no machine moved"]
    job = JobTurn(Tasks("first", 1), 7, 0.0)
    wrong = list(complaints(replace(well, jobs=(job,))))
    assert wrong == ["jobs first (7) are , not all COMPLETED", "first-0.out says ''"]


def test_a_pod_that_ended_stays_known_when_it_goes_with_its_node() -> None:
    pending = replace(POD, phase="Pending", said="")
    turn = WAVE.looked_at({"first-0": pending, "other": POD})
    assert (turn.seen, turn.has_begun) == ((pending,), False)
    assert turn.looked_at({}).seen == ()
    ended = turn.looked_at({"first-0": POD})
    assert ended.looked_at({}).has_ended


@pytest.mark.parametrize(
    ("line", "ok"), [("shared-1 10 12", True), ("shared-1 10 10", False), ("", False), ("x", False)]
)
def test_what_counts_as_having_run(line: str, ok: bool) -> None:
    assert is_stamp(line) is ok


def test_turns_come_one_after_another_and_both_kinds_are_among_them() -> None:
    planned = turns(4)
    assert [bool(turn.tasks) for turn in planned] == [True, False, True, True]
    assert [bool(turn.pods) for turn in planned] == [False, True, False, True]
    assert len(turns(4, 2)) == 2
    names = [name for turn in planned for name in (turn.pods.names if turn.pods else ())]
    assert len(set(names)) == len(names)
