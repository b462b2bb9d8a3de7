"""Launches by phase: what of them is kept, that phases are as long as the launch, and what the report has of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.charts import DrawingError
from tidepool.charts.box_plot import write_launch_plots
from tidepool.infrastructures.boot_times import BOOT_PHASES, LAUNCH_PHASES, LaunchPhase
from tidepool.scaling.launches import COLUMNS, phases_began, quantiles, rows, write_table
from tidepool.scaling.ports import LaunchRecord

_AT = datetime(2026, 11, 27, 12, tzinfo=UTC)
_VM = {"kernel": 5, "initrd": 7, "units": 9, "slurmd": 12}


def after(seconds: float) -> datetime:
    return _AT + timedelta(seconds=seconds)


def began(
    boot: Mapping[str, float] = {},
    making: float | None = 1,
    made: float | None = None,
    registered: float = 15,
) -> dict[str, float]:
    """Seconds since the node was asked for."""
    found = phases_began(
        _AT,
        None if making is None else after(making),
        None if made is None else after(made),
        {phase: after(boot[phase]) for phase in BOOT_PHASES if phase in boot},
        after(registered),
    )
    return {phase: (at - _AT).total_seconds() for phase, at in found.items()}


def test_of_a_machine_that_boots_firmware_begins_when_it_is_there() -> None:
    assert began(_VM, made=3) == {"asked": 0, "making": 1, "firmware": 3, **_VM}


def test_a_firmware_that_says_when_it_began_is_believed() -> None:
    assert began({"firmware": 2, "loader": 4, **_VM}, made=3)["firmware"] == 2


def test_of_a_container_the_time_until_its_first_process_is_its_image() -> None:
    assert began({"units": 8, "slurmd": 9}, made=2) == {
        "asked": 0,
        "making": 1,
        "image": 2,
        "units": 8,
        "slurmd": 9,
    }


def test_a_machine_that_was_suspended_tells_of_its_slurmd_alone() -> None:
    """By its own clock, which stood, it may have booted a moment ago."""
    boot: dict[LaunchPhase, datetime] = {phase: after(_VM[phase]) for phase in BOOT_PHASES if phase in _VM}
    found = phases_began(_AT, after(1), None, boot, after(15), is_resumed=True)
    assert found == {"asked": _AT, "resuming": after(1), "slurmd": after(12)}


def test_a_host_that_was_up_before_tells_of_no_boot() -> None:
    assert began({"kernel": -1e6, "units": -999_990, "slurmd": 6}, made=4) == {
        "asked": 0,
        "making": 1,
        "slurmd": 6,
    }


def test_whole_seconds_of_an_infrastructure_are_between_what_is_known_better() -> None:
    assert began(_VM, making=1.4, made=1.0)["firmware"] == 1.4
    assert began(_VM, made=5.9)["firmware"] == 5
    assert "firmware" not in began(_VM, made=9)


def test_a_slurmd_that_started_again_afterwards_tells_nothing() -> None:
    assert "slurmd" not in began({**_VM, "slurmd": 40})


_MOMENTS = st.none() | st.floats(-100, 200)


@given(
    st.dictionaries(st.sampled_from(BOOT_PHASES), st.floats(-1e6, 200)),
    _MOMENTS,
    _MOMENTS,
    st.floats(0, 150),
)
def test_phases_are_in_their_order_and_together_as_long_as_the_launch(
    boot: dict[str, float], making: float | None, made: float | None, registered: float
) -> None:
    found = began(boot, making, made, registered)
    assert list(found) == [phase for phase in LAUNCH_PHASES if phase in found]
    assert list(found.values()) == sorted(found.values())
    (row,) = rows([record(found, registered)])
    assert row.phases.keys() == found.keys()
    assert sum(row.phases.values()) == pytest.approx(row.total_s, abs=1e-3)
    assert row.total_s == pytest.approx(registered, abs=1e-3)


def record(
    found: Mapping[str, float], registered: float, node: str = "cpu-1", where: str = "libvirt"
) -> LaunchRecord:
    phases: dict[LaunchPhase, datetime] = {p: after(found[p]) for p in LAUNCH_PHASES if p in found}
    return LaunchRecord(
        node, node.rpartition("-")[0], where, after(registered), phases, after(registered + 2)
    )


def test_in_the_table_what_is_not_known_is_empty() -> None:
    stream = io.StringIO()
    write_table(
        rows([record(began(_VM, made=3), 15), record(began(making=None), 4, "cpu-2", "local")]), stream
    )
    vm, local = csv.DictReader(io.StringIO(stream.getvalue()))
    assert list(vm) == list(COLUMNS)
    assert (vm["total_s"], vm["firmware_s"], vm["loader_s"], vm["slurmd_s"]) == (
        "15.000",
        "2.000",
        "",
        "3.000",
    )
    assert (vm["image_s"], vm["first_job_s"]) == ("", "2.000")
    assert (local["asked_s"], local["total_s"], local["making_s"], local["kernel_s"]) == (
        "4.000",
        "4.000",
        "",
        "",
    )


def test_quantiles_are_of_each_infrastructure_apart() -> None:
    found = rows([record(began(_VM, made=3, registered=15 + n), 15 + n, f"cpu-{n}") for n in range(1, 4)])
    of_total = next(q for q in quantiles(found) if q.phase == "total")
    assert (of_total.infrastructure, of_total.count, of_total.p50, of_total.longest) == ("libvirt", 3, 17, 18)
    assert [q.phase for q in quantiles(found)] == [
        "asked", "making", "firmware", "kernel", "initrd", "units", "slurmd", "total",
    ]  # fmt: skip


def test_launches_are_drawn_with_a_panel_for_each_infrastructure_and_the_same_bytes(tmp_path: Path) -> None:
    found = rows([record(began(_VM, made=3), 15), record(began(making=None), 4, "cpu-2", "local")])
    write_launch_plots(found, tmp_path / "one.svg", tmp_path / "one.png", title="Launches")
    write_launch_plots(found, tmp_path / "two.svg", title="Launches")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "one.svg").read_text().count('id="axes_') == 2
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(DrawingError, match="nothing to draw"):
        write_launch_plots([], tmp_path / "none.svg")


def test_the_page_has_each_column() -> None:
    page = (Path(__file__).parents[2] / "docs/scaling.md").read_text()
    for name, said in COLUMNS.items():
        assert f"| `{name}` | {said} |\n" in page
