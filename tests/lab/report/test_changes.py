"""Changes between two campaigns, and texts of figures."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.lab.report.campaigns import SCHEDULERS, MadeUp, made_up
from tidepool.lab.report.changes import Change, changes
from tidepool.lab.report.setup import environments
from tidepool.lab.report.words import figure, interval, listed, scale_of


def test_settings_of_the_file_and_of_runs_that_are_not_the_same_are_named(tmp_path: Path) -> None:
    one = made_up(tmp_path / "one", repeats=1, workloads=("bag",))
    other = made_up(
        tmp_path / "other",
        {**SCHEDULERS, "kubernetes": MadeUp(0.8, "priority")},
        repeats=2,
        kernel="6.2",
        workloads=("bag",),
    )
    assert set(changes(one, other)) == {
        Change("laboratory", "repeats", "1", "2"),
        Change("slurm", "kernel", "6.1", "6.2"),
        Change("kubernetes", "kernel", "6.1", "6.2"),
        Change("kubernetes", "version", "0.9 & <more>", "0.8 & <more>"),
    }
    assert changes(one, one) == ()


def test_what_changed_within_a_campaign_is_not_the_same_in_all_runs() -> None:
    runs = [{"kernel": "6.1", "mitigation": "on; off"}, {"kernel": "6.2", "mitigation": "on; off"}]
    alike, differing = environments({"slurm": runs})
    assert alike == {"mitigation": "on; off"}
    assert differing == {"kernel": {"slurm": "6.1; 6.2"}}


@given(st.floats(1e-9, 1e9))
def test_a_figure_is_what_it_says_within_half_a_hundredth(value: float) -> None:
    assert abs(float(figure(value).replace(",", "")) - value) <= 0.00501 * value


def test_texts_of_figures() -> None:
    assert [figure(value) for value in (0, 0.01234, 4.5, 1234.4, 1.2e-7)] == [
        "0",
        "0.0123",
        "4.5",
        "1,234",
        "1.20e-07",
    ]
    assert interval(2.0, 2.0, 2.0) == "2"
    assert interval(2.0, 1.0, 3.0) == "2 (1 to 3)"
    assert listed(("a", "b", "c"), "or") == "a, b or c"
    assert scale_of("B", [3 << 20]) == ("MiB", 2**-20)
    assert scale_of("s", [2e-6, 3e-6]) == ("µs", 1e6)
    assert scale_of("s", [2e-6, 3.0]) == ("s", 1.0)
    assert scale_of("", []) == ("", 1.0)
