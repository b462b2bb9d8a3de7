"""`lab run` and `lab show`: what speaks against a campaign is told before anything is made, and what is not whole is never shown so."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.standins import Person
from tests.lab.outcomes import outcome
from tidepool.cli import errors
from tidepool.lab import processor_claim
from tidepool.lab.campaign import Trial
from tidepool.lab.laboratory import read_laboratory
from tidepool.lab.results.store import Results
from tidepool.lab.schedulers.registry import SCHEDULERS

LAB: dict[str, Any] = {
    "schedulers": ["slurm", {"name": "patient", "kind": "slurm"}],
    "workloads": [{"name": "bag", "parameters": {"number": 2}}],
    "repeats": 2,
    "disturbance": {"stolen_percent": 100, "other_percent": 100},
}
SPEC: dict[str, Any] = {
    "name": "lab",
    "network": "10.85.0.0/16",
    "kubernetes": {},
    "pools": [
        {"name": "lab", "subnet": "10.85.1.0/24", "machines": 2, "shape": {"cpus": 1, "memory": "1GiB"}}
    ],
    "partitions": [{"name": "main"}],
}


@pytest.fixture
def scientist(somebody: Person, monkeypatch: pytest.MonkeyPatch) -> Person:
    # Tests run side by side, and none of them measures.
    claims = partial(processor_claim.claim, space=f"tidepool/{somebody.folder}")
    monkeypatch.setattr(processor_claim, "claim", claims)
    _write(somebody)
    return somebody


def _write(person: Person, spec: Any = SPEC, **changes: Any) -> None:
    config = {"cluster:spec": spec, "tidepool:lab": {**LAB, **changes}}
    (person.folder / "Pulumi.lab.yaml").write_text(json.dumps({"config": config}))


def _results(person: Person, trials: int) -> Results:
    """So many trials of the campaign, beside its warm-ups."""
    laboratory = read_laboratory(LAB)
    campaign = laboratory.campaign("lab")
    folder = person.folder / "results" / "lab" / "lab"
    results = Results.create(folder, campaign, laboratory.to_plain(), cpus=2)
    for trial in list(campaign.trials())[: 2 + trials]:
        workload = laboratory.workload("bag", campaign.seed_of("bag", trial.repeat))
        results.write(outcome(trial, workload), workload)
    return results


def _run(person: Person, *words: str) -> Any:
    return person.runs("-s", "lab", "lab", *words)


# What speaks against it


def test_a_stack_without_a_laboratory_is_told_so(scientist: Person) -> None:
    said = scientist.runs("-s", "dev", "lab", "run")
    assert said.exit_code == errors.USAGE
    assert "stack dev is no laboratory" in said.output
    assert "docs/laboratory.md" in said.output


def test_all_mistakes_of_the_file_are_told_at_once(scientist: Person) -> None:
    _write(scientist, schedulers=["slrum"], repeats=2, workloads=["bug"])
    said = _run(scientist, "run")
    assert said.exit_code == errors.FAILED
    assert "2 mistakes" in said.output
    assert "schedulers[0].name = 'slrum'" in said.output
    assert "workloads[0]" in said.output


def test_a_workload_larger_than_the_machines_is_refused(scientist: Person) -> None:
    gang = {"name": "gang", "parameters": {"sizes": [3], "number": 1}}
    wide = {"name": "wide", "kind": "bag", "parameters": {"cpus_per_task": 2}}
    _write(scientist, workloads=[gang, wide], processors=[9999])
    said = _run(scientist, "run")
    assert said.exit_code == errors.USAGE
    assert "workload gang" in said.output
    assert "3 tasks" in said.output
    assert "workload wide" in said.output
    assert "no processor 9999" in said.output
    assert _nothing_was_made(scientist)


def test_a_scheduler_that_is_not_built_is_told_with_what_builds_it(
    scientist: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = replace(SCHEDULERS["slurm"], missing=lambda _: ("it is not built: `make maui`",))
    monkeypatch.setattr("tidepool.cli.lab.opening.scheduler_kind", lambda _: absent)
    said = _run(scientist, "run")
    assert said.exit_code == errors.LACKS
    assert "slurm: it is not built: `make maui`" in said.output
    assert _nothing_was_made(scientist)


def test_vms_that_are_not_pinned_are_told_with_what_pins_them(scientist: Person) -> None:
    pool = {**SPEC["pools"][0], "infrastructure": {"name": "libvirt"}, "image": "debian-12-vm-converged"}
    libvirt = {"volumes": {"home": "10.85.255.254:/home"}, "bridge": "switch"}
    _write(scientist, {**SPEC, "pools": [pool], "infrastructures": {"libvirt": libvirt}})
    said = _run(scientist, "run")
    assert said.exit_code == errors.USAGE
    assert "pinning: the VMs of pool lab are pinned to no processors" in said.output
    assert _nothing_was_made(scientist)


def test_a_machine_without_a_compiler_is_told_so_first(
    scientist: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidepool.cli.lab.opening.compiler", lambda: None)
    said = _run(scientist, "run")
    assert said.exit_code == errors.LACKS
    assert "there is no cc here; install gcc and libc6-dev" in said.output
    assert _nothing_was_made(scientist)


def test_what_only_machines_that_are_up_can_tell_is_told_before_anything_is_measured(
    scientist: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_up: list[str] = []
    found_out = replace(SCHEDULERS["slurm"], missing=lambda _: tuple(is_up))
    monkeypatch.setattr("tidepool.cli.lab.opening.scheduler_kind", lambda _: found_out)
    monkeypatch.setattr("tidepool.cli.lab.bench._LOOK_S", 0.0)
    monkeypatch.setattr(
        "tidepool.cli.lab.machines.LabMachines.up", lambda _: is_up.append("its program does not run")
    )
    said = _run(scientist, "run")
    assert said.exit_code == errors.LACKS
    assert "slurm: its program does not run" in said.output
    assert "nothing was measured" in said.output


def test_the_pool_has_to_be_there(scientist: Person) -> None:
    _write(scientist, pool="large")
    said = _run(scientist, "run")
    assert "no pool 'large'" in said.output
    assert "there are: lab" in said.output


def test_trials_that_are_not_there_are_not_selected(scientist: Person) -> None:
    said = _run(scientist, "run", "--only", "slurm/bug")
    assert said.exit_code == errors.USAGE
    assert "there is no workload 'bug'; there are bag" in said.output


@pytest.mark.parametrize("only", ["slurm", "/bag", "patient/bag"])
def test_two_campaigns_on_the_same_processors_are_one_too_many(scientist: Person, only: str) -> None:
    with processor_claim.claim(os.sched_getaffinity(0)):
        said = _run(scientist, "run", "--only", only)
    assert said.exit_code == errors.FAILED
    assert f"measured on by process {os.getpid()}" in said.output
    assert _nothing_was_made(scientist)


def test_a_host_that_is_disturbed_is_refused(scientist: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidepool.cli.lab.bench.disturbance", lambda *_: "the hypervisor took 30 %")
    monkeypatch.setattr("tidepool.cli.lab.bench._LOOK_S", 0.0)
    said = _run(scientist, "run")
    assert "disturbed now" in said.output
    assert "the hypervisor took 30 %" in said.output
    assert _nothing_was_made(scientist)


def _nothing_was_made(person: Person) -> bool:
    return not (person.folder / "results").exists() and not any(
        words[0] in ("up", "init") for words in person.engine.asked
    )


# What is shown


def test_an_incomplete_campaign_is_never_shown_as_whole(scientist: Person) -> None:
    results = _results(scientist, 3)
    said = _run(scientist, "show")
    assert said.exit_code == errors.OK
    assert "NOT WHOLE: 3 of 4 trials" in said.output
    assert "makespan" not in said.output
    told = json.loads(_run(scientist, "show", "--json").output)
    assert told["isWhole"] is False
    assert told["figures"] is None
    assert told["missing"] == [trial.id for trial in results.missing()]


def test_a_whole_campaign_is_shown_with_its_figures(scientist: Person) -> None:
    _results(scientist, 4)
    said = _run(scientist, "show")
    assert "Campaign lab: whole, 4 trials" in said.output
    assert "makespan seconds" in said.output
    told = json.loads(_run(scientist, "show", "--json").output)
    assert told["isWhole"] is True
    assert {(each["scheduler"], each["workload"]) for each in told["figures"]} == {
        ("slurm", "bag"),
        ("patient", "bag"),
    }
    assert all(each["makespan_seconds"] > 0 for each in told["figures"])


def test_what_was_disturbed_is_named(scientist: Person) -> None:
    results = _results(scientist, 0)
    laboratory = read_laboratory(LAB)
    workload = laboratory.workload("bag", laboratory.campaign("lab").seed_of("bag", 1))
    results.write(outcome(Trial("slurm", "bag", 1), workload, disturbed="stolen time"), workload)
    assert "does not count: slurm.bag.1: stolen time" in _run(scientist, "show").output
    told = json.loads(_run(scientist, "show", "--json").output)
    assert told["disturbed"] == [{"trial": "slurm.bag.1", "why": "stolen time"}]


def test_a_campaign_that_was_not_begun_is_not_there(scientist: Person) -> None:
    _results(scientist, 1)
    said = _run(scientist, "show", "other")
    assert said.exit_code == errors.NOT_THERE
    assert "there are: lab" in said.output


def test_a_whole_campaign_is_not_run_again(scientist: Person) -> None:
    _results(scientist, 4)
    said = _run(scientist, "run")
    assert said.exit_code == errors.OK
    assert "whole already" in said.output


def test_results_of_another_laboratory_are_not_mixed(scientist: Person) -> None:
    _results(scientist, 1)
    _write(scientist, repeats=3)
    said = _run(scientist, "run")
    assert said.exit_code == errors.USAGE
    assert "repeats changed since it began" in said.output
    assert "tidepool lab run NAME" in said.output


def test_the_command_of_a_folder_of_results_is_left_alone(scientist: Person) -> None:
    """Showing writes nothing."""
    results = _results(scientist, 2)
    before = _tree(results.folder)
    _run(scientist, "show")
    assert _tree(results.folder) == before


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}
