"""Phases of provisioning: the same for launches and conversions, as long together as the whole, as table, quantiles and box plots."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.conversion.test_report import conversion
from tidepool.charts import write_drawing
from tidepool.charts.boxes import boxes_figure
from tidepool.cluster.frozen import FrozenDict
from tidepool.conversion import report as conversions
from tidepool.infrastructures.boot_times import LAUNCH_PHASES
from tidepool.lab.phases import COLOURS, COLUMNS, of_conversions, of_launches, panels, quantiles, write_table
from tidepool.scaling import launches
from tidepool.scaling.ports import LaunchRecord

_AT = datetime(2026, 11, 27, 12, tzinfo=UTC)


def launch(infrastructure: str, seconds: dict[str, float], total_s: float = 20) -> LaunchRecord:
    began = {"asked": _AT, **{name: _AT + timedelta(seconds=at) for name, at in seconds.items()}}
    return LaunchRecord("cpu-1", "cpu", infrastructure, _AT + timedelta(seconds=total_s), FrozenDict(began))


VM = launch(
    "libvirt", {"making": 1, "firmware": 4, "loader": 5, "kernel": 7, "initrd": 8, "units": 10, "slurmd": 15}
)
POD = launch("kubernetes", {"making": 2, "image": 3, "units": 9, "slurmd": 10}, 12)
RESUMED = launch("libvirt", {"resuming": 1, "slurmd": 3}, 4)


def test_a_boot_and_a_container_come_by_the_same_phases() -> None:
    vm, pod = of_launches("dev", launches.rows([VM, POD]))
    assert vm.phases == {"before": 4, "kernel": 6, "services": 5, "join": 5}
    assert pod.phases == {"before": 3, "image": 6, "services": 1, "join": 2}
    assert (vm.group, pod.group) == ("launch on libvirt", "launch on kubernetes")


def test_a_machine_that_was_suspended_boots_nothing() -> None:
    (resumed,) = of_launches("dev", launches.rows([RESUMED]))
    assert resumed.phases == {"before": 1, "services": 2, "join": 1}


def test_a_conversion_leaves_its_role_and_joins_another() -> None:
    rows = conversions.rows([conversion(1), conversion(2, to="slurm")])
    found = [*of_conversions("dev", rows, {"shared": "local"}.__getitem__)]
    assert [each.group for each in found] == ["slurm -> kubernetes on local", "kubernetes -> slurm on local"]
    assert {phase: round(seconds, 3) for phase, seconds in found[0].phases.items()} == {
        "before": 1.2,
        "services": 0.3,
        "join": 0.7,
    }


@given(
    st.lists(st.floats(0, 100), min_size=len(LAUNCH_PHASES), max_size=len(LAUNCH_PHASES)),
    st.sets(st.sampled_from(LAUNCH_PHASES)),
)
def test_phases_are_together_as_long_as_the_launch(times: list[float], known: set[str]) -> None:
    at = dict(zip(LAUNCH_PHASES, sorted(times), strict=True))
    record = launch("aws", {name: seconds for name, seconds in at.items() if name in known - {"asked"}}, 101)
    (found,) = of_launches("dev", launches.rows([record]))
    assert abs(sum(found.phases.values()) - found.total_s) < 1e-4


def test_one_table_has_all_of_them(tmp_path: Path) -> None:
    found = [
        *of_launches("dev", launches.rows([VM, POD])),
        *of_conversions("dev", conversions.rows([conversion(1)]), lambda pool: ""),
    ]
    stream = io.StringIO()
    write_table(found, stream)
    rows = [*csv.DictReader(io.StringIO(stream.getvalue()))]
    assert [*rows[0]] == [*COLUMNS]
    assert [row["kind"] for row in rows] == ["launch", "launch", "slurm -> kubernetes"]
    assert rows[0]["image_s"] == ""
    assert rows[0]["kernel_s"] == "6.000"
    assert {(q.group, q.phase) for q in quantiles(found)} == {
        (panel.title, name) for panel in panels(found) for name, _ in panel.values
    }
    assert (
        next(q.p50 for q in quantiles(found) if q.group == "launch on kubernetes" and q.phase == "total")
        == 12
    )
    write_drawing(
        lambda: boxes_figure(panels(found), COLOURS, columns=2),
        [tmp_path / "phases.svg", tmp_path / "phases.png"],
    )
    assert (tmp_path / "phases.png").stat().st_size > 1000
