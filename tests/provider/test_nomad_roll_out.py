"""The last roll-out of a system job of Nomad: one that failed is told before another version is registered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.infrastructures.nomad.fake import FakeNomad, hosts, served
from tests.provider.calls import Calls, plainly
from tidepool.resources.kind import Refusal

JOB = "dev-slurmd-cpu"
FAILED = {
    "ID": "73eb3f7d-3151-5bec-9101-50e9828a8866",
    "JobVersion": 2,
    "Status": "failed",
    "StatusDescription": "Failed due to unhealthy allocations - rolling back to job version 1",
}


@pytest.fixture
def nomad() -> FakeNomad:
    return FakeNomad(*hosts(2))


@pytest.fixture
def inputs(nomad: FakeNomad) -> Iterator[dict[str, Any]]:
    with served(nomad) as address:
        yield {"api": {"address": address}, "namespace": "default", "job": JOB, "version": "a"}


@pytest.fixture
def roll_outs(tmp_path: Any) -> Calls:
    return Calls(tmp_path, "tidepool:nomad:RollOut")


def test_one_that_went_well_or_never_was_is_as_it_should_be(
    nomad: FakeNomad, inputs: dict[str, Any], roll_outs: Calls
) -> None:
    for last in (None, {**FAILED, "Status": "running"}, {**FAILED, "Status": "successful"}):
        nomad.deployments = {JOB: last} if last else {}
        made = roll_outs.create(roll_outs.checked(inputs))
        assert made.resource_id == JOB
        state = plainly(made.properties)
        assert plainly(roll_outs.read(JOB, state, state).properties) == {**inputs, "state": "well"}


def test_after_one_that_failed_an_unchanged_up_has_something_to_do(
    nomad: FakeNomad, inputs: dict[str, Any], roll_outs: Calls
) -> None:
    state = {**inputs, "state": "well"}
    nomad.deployments[JOB] = FAILED
    seen = plainly(roll_outs.read(JOB, state, state).properties)
    assert seen["state"] == "failed"
    assert roll_outs.diff(seen, roll_outs.checked(inputs)).changes


@pytest.mark.parametrize("version", ["1.11.2", "2.0.5"])
def test_another_version_after_one_that_failed_is_refused_where_nomad_would_leave_it_half_way(
    version: str, nomad: FakeNomad, inputs: dict[str, Any], roll_outs: Calls
) -> None:
    nomad.deployments[JOB] = FAILED
    nomad.host("beta").attributes["nomad.version"] = version
    nomad.host("alpha").attributes["nomad.version"] = "2.0.6"
    with pytest.raises(Refusal) as raised:
        roll_outs.update(JOB, {**inputs, "state": "failed"}, {**inputs, "version": "b", "state": "well"})
    assert str(raised.value).startswith(
        "dev-slurmd-cpu: the roll-out of its version 2 failed, in Nomad's words: Failed due to unhealthy allocations - "
        "rolling back to job version 1 (`nomad deployment status 73eb3f7d`)"
    )
    assert "`nomad job stop -purge -namespace default dev-slurmd-cpu`, and `tidepool up` at once" in str(
        raised.value
    )


def test_a_nomad_that_goes_on_after_one_that_failed_rolls_it_out_again(
    nomad: FakeNomad, inputs: dict[str, Any], roll_outs: Calls
) -> None:
    nomad.deployments[JOB] = FAILED
    for host in nomad.hosts.values():
        host.attributes["nomad.version"] = "2.0.6+ent"
    updated = roll_outs.update(JOB, {**inputs, "state": "failed"}, {**inputs, "state": "well"})
    assert plainly(updated.properties)["state"] == "well"
