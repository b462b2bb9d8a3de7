"""Changes of a spec: values at paths."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.specs import spec_mapping
from tidepool.cluster.spec_changes import Change, with_changes


def test_values_stand_where_their_paths_lead() -> None:
    before = spec_mapping()
    asked = copy.deepcopy(before)
    made, mistakes = with_changes(
        before,
        [
            Change("fleets.cpu.max_nodes", 8),
            Change("fleets.1.shape.cpus", 16),
            Change("image", "debian-13"),
            Change("controller.shape.cpus", 2),
            Change("slurm_version", None),
            Change("partitions.gpu", None),
            Change("fleets.gpu.infrastructures.aws.options.zones", ["c"]),
        ],
    )
    assert not mistakes
    assert before == asked, "what is given is never changed"
    cpu, gpu = made["fleets"]
    assert (cpu["max_nodes"], gpu["shape"]["cpus"], made["image"]) == (8, 16, "debian-13")
    assert made["controller"] == {"shape": {"cpus": 2}}
    assert "slurm_version" not in made
    assert [each["name"] for each in made["partitions"]] == ["main"]
    assert gpu["infrastructures"] == ["local", {"name": "aws", "options": {"zones": ["c"]}}]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("fleets.cpus.max_nodes", "fleets.cpus.max_nodes = 8: there is no cpus; did you mean cpu? known here: cpu, gpu"),
        ("fleets.2.max_nodes", "fleets.2.max_nodes = 8: there is no 2; known here: cpu, gpu"),
        ("name.first", "name.first = 8: there is 'physics', which has no first; write what is to stand there instead"),
        ("fleets.cpu.", "fleets.cpu. = 8: write keys with dots between them: fleets.cpu.max_nodes"),
    ],
)  # fmt: skip
def test_a_path_that_leads_nowhere_is_told_and_left_out(path: str, told: str) -> None:
    made, mistakes = with_changes(spec_mapping(), [Change(path, 8), Change("image", "x")])
    assert [str(each) for each in mistakes] == [told]
    assert made == spec_mapping(image="x")


_ENDS = st.recursive(
    st.integers() | st.text("ab", max_size=3) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text("ab", max_size=2), _ENDS, max_size=3),
    st.lists(st.builds(Change, st.text("ab.01", max_size=6), _ENDS), max_size=4),
)
def test_any_change_of_anything_is_made_or_told(spec: dict[str, object], changes: list[Change]) -> None:
    before = copy.deepcopy(spec)
    made, mistakes = with_changes(spec, changes)
    assert spec == before
    assert len(mistakes) <= len(changes)
    again, _ = with_changes(made, [each for each in changes if each.value is not None][-1:])
    if changes and changes[-1].value is not None and changes[-1].path not in {each.path for each in mistakes}:
        assert again == made, "the last change made twice is made once"
