"""Single values are kept as they are, and figures come of them: rates of bursts, waits of single jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import runs
from tidepool.charts import DrawingError
from tidepool.lab.errors import LabError
from tidepool.lab.scale.chart import write_chart
from tidepool.lab.scale.launches import BURST, SINGLE, ClusterFacts, Launch, read_rows, without, write_rows
from tidepool.lab.scale.summary import clusters_table, figures_table, points

#: By which times differ that are written by the tenth of a millisecond.
_ROUNDED_S = 1e-4


def launches(
    scheduler: str = "slurm", nodes: int = 100, pending: int = 100, speed: float = 1.0
) -> list[Launch]:
    """Three rounds, in each two single jobs that start after 0.5 s, and a burst of ten of which one starts each 0.1 s."""
    found = []
    for number in (1, 2, 3):
        at = 1000.0 * number
        for _ in range(2):
            times = (at, at + 0.25 / speed, at + 0.5 / speed)
            found.append(Launch(scheduler, nodes, pending, number, SINGLE, 0, *times))
        for job in range(10):
            after = 0.1 * (job + 1) / speed
            found.append(
                Launch(scheduler, nodes, pending, number, BURST, job, at, at + after / 2, at + after)
            )
    return found


FACTS = ClusterFacts(
    "slurm", 5000, 4000, 12.5, 1.1, 30.0, 2.0, "slurm=22.05.8", "", "5000 nodes are idle: not within 9 s"
)


def test_a_burst_gives_a_rate_and_single_jobs_give_waits() -> None:
    (found,) = points(launches())
    assert found.started_per_s.median == pytest.approx(10.0)
    assert found.decided_per_s.median == pytest.approx(20.0)
    assert found.wait_s.median == found.wait_p95_s == pytest.approx(0.5)
    assert found.decision_s.median == pytest.approx(0.25)


@given(st.floats(0.1, 50.0))
@runs(20)
def test_what_is_so_much_faster_has_so_much_greater_a_rate(speed: float) -> None:
    (slow,), (fast,) = points(launches()), points(launches(speed=speed))
    assert fast.started_per_s.median == pytest.approx(slow.started_per_s.median * speed, rel=1e-6)
    assert fast.wait_s.median == pytest.approx(slow.wait_s.median / speed, rel=1e-6)


def test_what_has_no_burst_is_no_point() -> None:
    assert points(each for each in launches() if each.way == SINGLE) == ()


def test_rows_come_back_from_their_file(tmp_path: Path) -> None:
    written = launches()
    write_rows(tmp_path / "values.csv", written, Launch)
    read = read_rows(tmp_path / "values.csv", Launch)
    assert [each.job for each in read] == [each.job for each in written]
    assert [each.started_s for each in read] == pytest.approx(
        [each.started_s for each in written], abs=_ROUNDED_S
    )
    write_rows(tmp_path / "clusters.csv", [FACTS], ClusterFacts)
    assert read_rows(tmp_path / "clusters.csv", ClusterFacts) == (FACTS,)
    assert read_rows(tmp_path / "none.csv", Launch) == ()


def test_a_file_of_something_else_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(LabError, match=r"other\.csv does not hold Launch rows"):
        read_rows(tmp_path / "other.csv", Launch)


def test_what_is_measured_anew_takes_the_place_of_what_was_and_nothing_else() -> None:
    before = [*launches(nodes=100), *launches(nodes=1000), *launches("kubernetes")]
    kept = without(before, [("slurm", 100)])
    assert {(each.scheduler, each.nodes) for each in kept} == {("slurm", 1000), ("kubernetes", 100)}


def test_tables_have_a_row_each_and_say_what_could_not_be_had() -> None:
    table = figures_table(points([*launches(), *launches(pending=1000)]))
    assert len(table.splitlines()) == 4
    assert "| slurm | 100 | 1,000 | 10 (10 to 10) | 20 (20 to 20) | 500 (500 to 500) | 500 |" in table
    assert clusters_table([FACTS]).endswith("- slurm, 5,000 nodes: 5000 nodes are idle: not within 9 s")


def test_the_same_points_give_the_same_chart_and_none_give_none(tmp_path: Path) -> None:
    found = points([*launches(), *launches(nodes=1000, speed=0.5), *launches("kubernetes")])
    one, two = tmp_path / "one.svg", tmp_path / "two.svg"
    write_chart(found, one)
    write_chart(found, two)
    assert one.read_bytes() == two.read_bytes()
    assert "#0072b2" in one.read_text()
    assert "#d55e00" in one.read_text()
    with pytest.raises(DrawingError, match="nothing was measured"):
        write_chart((), tmp_path / "none.svg")
