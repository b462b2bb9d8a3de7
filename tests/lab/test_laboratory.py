"""A laboratory as a person writes it: what is understood, and that all mistakes are told at once with their places."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.repository import ROOT
from tidepool.cluster.spec_reading import read_spec
from tidepool.lab.capacity import misfits
from tidepool.lab.laboratory import LAB_KEY, LaboratoryError, read_laboratory

LABORATORY: dict[str, Any] = {
    "schedulers": ["slurm", {"name": "patient", "kind": "slurm"}, "kubernetes"],
    "workloads": ["bag", {"name": "large", "kind": "gang", "parameters": {"sizes": [4], "number": 2}}],
}


def test_names_alone_are_enough() -> None:
    laboratory = read_laboratory(LABORATORY)
    campaign = laboratory.campaign("first")
    assert campaign.schedulers == ("slurm", "patient", "kubernetes")
    assert laboratory.scheduler("patient").kind_name == "slurm"
    workload = laboratory.workload("large", campaign.seed_of("large", 1))
    assert (workload.name, workload.kind, len(workload.jobs)) == ("large", "gang", 2)
    assert read_laboratory(laboratory.to_plain()) == laboratory


@pytest.mark.parametrize(
    ("stack", "schedulers", "workloads", "repeats"),
    [("lab", 4, 3, 5), ("schedulers", 5, 9, 5), ("lab-noise", 3, 1, 8)],
)
def test_the_project_s_own_are_some_and_their_jobs_fit(
    stack: str, schedulers: int, workloads: int, repeats: int
) -> None:
    config = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())["config"]
    laboratory = read_laboratory(config[LAB_KEY])
    assert (len(laboratory.schedulers), len(laboratory.workloads)) == (schedulers, workloads)
    assert laboratory.repeats == repeats
    (pool,) = read_spec(config["cluster:spec"]).pools
    campaign = laboratory.campaign("c")
    for name in campaign.workloads:
        for number in range(campaign.repeats + 1):
            jobs = laboratory.workload(name, campaign.seed_of(name, number))
            assert misfits(jobs, pool.machines, pool.shape.cpus, pool.shape.memory_mib) == ()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"repeats": 0}, ["repeats = 0"]),
        ({"repeat": 3}, ["repeat = 3: no such key; did you mean repeats?"]),
        ({"schedulers": []}, ["schedulers"]),
        (
            {"schedulers": ["slrum"]},
            ["schedulers[0].name = 'slrum': there is no such scheduler; did you mean slurm?"],
        ),
        ({"schedulers": ["slurm", "slurm"]}, ["schedulers[1].name = 'slurm': another one has this name"]),
        (
            {"workloads": [{"name": "Large Bag", "kind": "bag"}]},
            ["workloads[0].name = 'Large Bag': a name is small"],
        ),
        ({"workloads": [{"name": "x", "kind": "bug"}]}, ["workloads[0]: workload x: there is no kind 'bug'"]),
        ({"workloads": [{"name": "bag", "parameters": {"number": -1}}]}, ["workloads[0]", "bag.number = -1"]),
        ({"disturbance": {"stolen_percent": 200}}, ["disturbance.stolen_percent = 200"]),
        ({"pinning": "core"}, ["pinning = 'core'"]),
        # All at once.
        (
            {"schedulers": ["slrum", "maui"], "workloads": ["bug"]},
            ["3 mistakes", "schedulers[0].name", "schedulers[1].name", "workloads[0]"],
        ),
        ({"repeats": 0, "seed": "x", "limit_s": -1}, ["3 mistakes", "repeats", "seed", "limit_s"]),
    ],
)
def test_mistakes_are_told_with_their_places(changes: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(LaboratoryError) as error:
        read_laboratory({**LABORATORY, **changes}, "Pulumi.lab.yaml, tidepool:lab")
    said = str(error.value)
    assert said.startswith("Pulumi.lab.yaml, tidepool:lab: ")
    for words in told:
        assert words in said
