"""The stack of a run: another's file, with what a cluster needs that is there for one workload."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from tests.cli.standins import Person
from tests.cluster.specs import spec_mapping
from tests.runs.workloads import workload
from tidepool.cli.runs.run_stack import run_id, run_spec
from tidepool.cli.stack import find_stack
from tidepool.cli.stack_copy import copy_of
from tidepool.cluster.names import cluster_name
from tidepool.cluster.spec_reading import SpecError, read_spec


def written(somebody: Person, **changes: Any) -> dict[str, Any]:
    file = somebody.folder / "Pulumi.dev.yaml"
    document = {
        "encryptionsalt": "v1:x",
        "config": {"cluster:spec": spec_mapping(**changes), "other:key": "1"},
    }
    file.write_text(yaml.safe_dump(document))
    copy = copy_of(find_stack(somebody.context, "dev", None), "any").named("run")
    copy = replace(copy, document=run_spec(copy.document, "run", workload(grace_s=90)))
    copy.write(with_secrets=True)
    target = somebody.folder / "Pulumi.run.yaml"
    assert target.stat().st_mode & 0o777 == 0o600
    found: dict[str, Any] = yaml.safe_load(target.read_text())
    assert found["encryptionsalt"] == "v1:x"
    assert found["config"]["other:key"] == "1"
    spec: dict[str, Any] = found["config"]["cluster:spec"]
    assert read_spec(spec).name == "run"
    return spec


def test_slurm_forgets_no_job_and_gives_jobs_their_grace(somebody: Person) -> None:
    assert written(somebody)["slurm_conf"] == {"MinJobAge": 31_536_000, "KillWait": 90}


def test_what_a_person_says_of_slurm_stays(somebody: Person) -> None:
    spec = written(somebody, slurm_conf={"killwait": 5, "MessageTimeout": 20})
    assert spec["slurm_conf"] == {"killwait": 5, "MessageTimeout": 20, "MinJobAge": 31_536_000}


def test_nodes_run_the_workload_s_hook() -> None:
    spec = spec_mapping(first_boot="#!/bin/sh\nold\n")
    assert run_spec(spec, "run", workload())["first_boot"] == "#!/bin/sh\nold\n"
    assert run_spec(spec, "run", workload(first_boot="#!/bin/sh\nnew\n"))["first_boot"] == "#!/bin/sh\nnew\n"


def test_ids_are_of_the_workload_the_time_and_chance() -> None:
    at = datetime(2026, 11, 27, 20, 45, 12, tzinfo=UTC)
    first, second = run_id("physics-run", at), run_id("physics-run", at)
    assert first.startswith("physics-run-261127-204512-")
    longest = run_id("a" * 20, at)
    assert cluster_name(longest) == longest
    assert first != second


def test_the_controller_reaches_the_service_of_runs_and_rules_of_a_person_stay() -> None:
    rule = {"to": ["192.0.2.9"]}
    spec = spec_mapping(
        run_service={"url": "http://192.0.2.7:8443"},
        firewall={"nodes": {"egress": [rule]}, "controller": {"egress": [rule]}},
    )
    made = read_spec(run_spec(spec, "run", workload()))
    assert [(str(each.to[0]), each.ports) for each in made.firewall.controller.egress] == [
        ("192.0.2.9/32", ()),
        ("192.0.2.7/32", ("8443",)),
    ]
    assert made.firewall.nodes.egress == read_spec(spec).firewall.nodes.egress
    assert made.flows[-1].sources == (f"{made.own_addresses.controller}/32",)
    assert "firewall" not in run_spec(spec_mapping(), "run", workload())


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://reaper.site:8443", "names are not looked up"),
        ("ftp://192.0.2.7", "write https://ADDRESS:PORT"),
        ("https://ada@192.0.2.7", "nothing before or after"),
        ("https://192.0.2.7/runs?x=1", "nothing before or after"),
        ("http://8.8.8.8:80", "tokens would go over networks of others in clear"),
        ("http://127.0.0.1:8443", "machines do not reach that"),
    ],
)
def test_a_service_that_cannot_be_is_told(url: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        read_spec(spec_mapping(run_service={"url": url}))
