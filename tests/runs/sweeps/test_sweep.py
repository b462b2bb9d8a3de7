"""A sweep: all combinations, each as often as asked, and a record that tells the same when it is read."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.sweeps.records import sweep
from tidepool.runs.sweeps.sweep import (
    Variation,
    combinations,
    from_json,
    repeated,
    short_names,
    to_json,
)

VALUES = st.lists(st.integers() | st.text("ab", max_size=2), min_size=1, max_size=3, unique_by=repr)


@given(st.dictionaries(st.sampled_from(["a.x", "b.x", "c"]), VALUES, min_size=1), st.integers(1, 4))
def test_each_combination_is_run_as_often_as_asked_and_all_once_before_any_again(
    varied: dict[str, list[object]], repeat: int
) -> None:
    found = combinations([Variation(path, tuple(values)) for path, values in varied.items()])
    assert len(found) == len({repr(each) for each in found})
    assert [tuple(change.value for change in each) for each in found] == [
        *itertools.product(*varied.values())
    ]
    numbers = itertools.count()
    runs = repeated(len(found), repeat, lambda: f"r{next(numbers)}")
    assert len({run.id for run in runs}) == len(runs) == len(found) * repeat
    for count in range(repeat):
        part = runs[count * len(found) : (count + 1) * len(found)]
        assert [*Counter(run.point for run in part)] == [*range(len(found))]


def test_a_record_tells_the_same_when_it_is_read() -> None:
    written = sweep(Variation("fleets.cpu.shape.cpus", (2, 4)), Variation("image", ("a", None)))
    assert from_json(to_json(written)) == written
    for text in ("", "{}", to_json(written).replace('"format": 1', '"format": 2')):
        with pytest.raises(ValueError, match="it is no record of a sweep"):
            from_json(text)


def test_points_are_named_by_what_differs() -> None:
    paths = ["fleets.cpu.shape.cpus", "fleets.gpu.shape.cpus", "image"]
    assert short_names(paths) == ["cpu.shape.cpus", "gpu.shape.cpus", "image"]
    labels = [each.label for each in sweep().points]
    assert labels == ["cpus=2", "cpus=4"]


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(".".join), unique=True, max_size=6)
)
def test_short_names_tell_all_paths_apart(paths: list[str]) -> None:
    names = short_names(paths)
    assert len(set(names)) == len(paths)
    assert all(path.endswith(name) for path, name in zip(paths, names, strict=True))
