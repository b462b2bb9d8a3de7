"""A cluster for one workload in a program: one run below the component, with the documents as they were read."""

from __future__ import annotations

import json
from pathlib import Path

import pulumi
import pytest

from tests.cluster.specs import spec_mapping
from tests.runs.workloads import job, mapping, workload
from tidepool.cluster.spec_reading import read_spec
from tidepool.components import EphemeralCluster
from tidepool.resources.values import whole_numbers
from tidepool.runs.workload import Workload
from tidepool.testing import register

SPEC = read_spec(spec_mapping())


def test_it_is_one_run_of_the_workload_and_its_scripts(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/sh\nmake\n")
    file = tmp_path / "w.yaml"
    file.write_text(json.dumps(mapping(job("a", script="run.sh", memory="1GiB"), outputs=["*.out"])))

    def program() -> None:
        cluster = EphemeralCluster("trial", SPEC, file, results="s3://lab/runs", keep_on_failure="30")
        pulumi.export("location", cluster.location)

    graph = register(program)
    assert [*graph.of_type("tidepool:components:EphemeralCluster")] == ["trial"]
    made = graph["tidepool:runs:Run trial"]
    assert made.inputs["results"] == "s3://lab/runs"
    assert made.inputs["keepOnFailure"] == "30"
    assert read_spec(whole_numbers(made.inputs["spec"])) == SPEC
    read = Workload.model_validate(whole_numbers(made.inputs["workload"]))
    assert read.jobs[0].text == "#!/bin/sh\nmake\n"
    assert read.jobs[0].memory_mib == 1024


def test_a_workload_is_a_value_too() -> None:
    graph = register(lambda: EphemeralCluster("trial", SPEC, workload(), results="file:///srv/results"))
    assert Workload.model_validate(graph["tidepool:runs:Run trial"].inputs["workload"]) == workload()


def test_a_workload_with_mistakes_is_told_by_the_program(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(json.dumps(mapping(job("a", after=["b"]), outputs=["/etc"])))
    with pytest.raises(pulumi.RunError, match="trial: 2 mistakes in the workload"):
        register(lambda: EphemeralCluster("trial", SPEC, tmp_path / "w.yaml", results="s3://lab/runs"))
