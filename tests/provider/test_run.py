"""tidepool:runs:Run: mistakes are told before anything is made, and by the command where it alone can know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.specs import spec_mapping
from tests.provider.calls import Calls, plainly
from tests.runs.workloads import job, mapping
from tidepool.resources.kind import Refusal


def inputs(results: str = "s3://lab/runs", *jobs: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": spec_mapping(**spec), "workload": mapping(*jobs), "results": results}


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path / "data", "tidepool:runs:Run")


def test_what_is_right_has_no_mistakes_and_another_spec_asks_for_another_run(calls: Calls) -> None:
    old = plainly(calls.checked(inputs()))
    found = calls.diff(old, plainly(calls.checked(inputs(image="debian-13"))))
    assert found.replaces == ["spec"]
    assert not found.delete_before_replace
    assert calls.diff(old, {**old, "keepOnFailure": "30"}).replaces == []


@pytest.mark.parametrize(
    ("wanted", "property", "told"),
    [
        (inputs(network="8.8.8.0/24"), "spec", "one mistake in the cluster's spec"),
        (inputs("s3://lab/runs", job(cpus_per_task=99)), "workload", "can never run on this cluster: asks for 99 CPUs"),
        (inputs("s3://lab/runs", job(script="a.sh")), "workload", "there is no a.sh here"),
        (inputs("https://ada:secret@lab/runs"), "results", "it has a secret in it"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_previews(
    calls: Calls, wanted: dict[str, Any], property: str, told: str
) -> None:
    failures = calls.failures(wanted)
    assert failures.keys() == {property}
    assert told in failures[property]


def test_what_the_command_finds_is_told_and_nothing_is_made(calls: Calls, tmp_path: Path) -> None:
    wanted = plainly(calls.checked(inputs((tmp_path / "nowhere" / "results").as_uri())))
    with pytest.raises(Refusal, match="--results: "):
        calls.create(wanted)
    data = tmp_path / "data"
    stacks = [each.name for each in (data / "runs/project").glob("Pulumi.*.yaml")]
    assert len(stacks) == 1, "the template"
    assert stacks[0].startswith("Pulumi.physics-")
    assert not [*data.glob("*/networks")]
