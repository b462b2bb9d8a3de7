"""The plugin of the tests for Nomad is as terraform-provider-nomad 2.6.1 is: checks, replacement, waits, texts."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.plugins.nomad import ApiError, Client, JobKind, JobModel, VariableKind, VariableModel
from tidepool.resources.kind import Refusal, Task, Unfinished
from tidepool.resources.reading import Change, read

TASK = Task("urn", 60.0, time.monotonic() + 60, lambda _: None, lambda _: None, lambda _: None)


@dataclass
class Answers:
    """Nomad, by what it answers to ``METHOD path``; an int is the status of an error."""

    answers: dict[str, Any]
    asked: list[tuple[str, Mapping[str, str], Any]] = field(default_factory=list)

    def call(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        self.asked.append((f"{method} {path}", query, body))
        answer = self.answers[f"{method} {path}"]
        if isinstance(answer, int):
            raise ApiError(answer, "Permission denied" if answer == 403 else "not found")
        return answer


def jobspec(id: str = "dev-munge", namespace: str = "physics", **more: Any) -> str:
    return json.dumps({"Job": {"ID": id, "Namespace": namespace, **more}})


def jobs() -> tuple[JobKind, Answers]:
    nomad = Answers({})
    return JobKind({}, lambda _: nomad), nomad


def told(**more: Any) -> dict[str, Any]:
    """What Nomad says of a job that is there."""
    return {
        "ID": "dev-munge",
        "Namespace": "physics",
        "Type": "system",
        "Region": "global",
        "JobModifyIndex": 7,
        "Status": "running",
        "Version": 0,
        **more,
    }


STATE = {
    "jobspec": jobspec(),
    "json": True,
    "name": "dev-munge",
    "namespace": "physics",
    "modifyIndex": "7",
    "status": "running",
}


def changed(new: str, **state: Any) -> tuple[Change, ...]:
    kind = JobKind({}, lambda _: Answers({"POST job/dev-munge/plan": {"JobModifyIndex": 7}}))
    return kind.diff({**STATE, **state}, {"jobspec": new, "json": True, "rerunIfDead": True})


def test_another_text_of_the_same_job_is_no_change() -> None:
    assert [each.key for each in changed(json.dumps(json.loads(jobspec()), indent=1))] == ["rerunIfDead"]


@pytest.mark.parametrize(
    ("new", "replaces"),
    [
        (jobspec(Priority=60), []),
        (jobspec(namespace="chemistry"), ["namespace"]),
        (jobspec("dev-other"), ["name"]),
    ],
)
def test_another_job_replaces_and_another_specification_does_not(new: str, replaces: list[str]) -> None:
    found = changed(new)
    assert "jobspec" in {each.key for each in found}
    assert [each.key for each in found if each.replaces] == replaces


def test_a_dead_job_is_run_again() -> None:
    assert "status" in {each.key for each in changed(jobspec(), status="dead")}


def test_a_job_that_others_registered_meanwhile_is_refused() -> None:
    with pytest.raises(Refusal, match="job modify index has changed since last refresh"):
        changed(jobspec(Priority=60), modifyIndex="5")


def test_a_job_that_is_not_detached_is_waited_for_and_one_that_is_not_well_is_kept_and_told() -> None:
    kind, nomad = jobs()
    nomad.answers = {
        "PUT jobs": {"EvalID": "e1", "JobModifyIndex": 7},
        "GET evaluation/e1": {"Status": "complete", "NextEval": "e2"},
        "GET evaluation/e2": {"Status": "complete", "DeploymentID": "d"},
        "GET deployment/d": {
            "ID": "d",
            "Status": "failed",
            "StatusDescription": "Failed due to unhealthy allocations - rolling back to job version 1",
        },
        "GET job/dev-munge": told(JobModifyIndex=9),
    }
    wanted = JobModel(jobspec=jobspec(), json=True, detach=False)
    with pytest.raises(Unfinished) as failed:
        kind.create(wanted, TASK)
    assert str(failed.value) == (
        "error waiting for job 'dev-munge' to schedule/deploy successfully: error waiting for evaluation: deployment 'd' "
        "terminated with status 'failed': 'Failed due to unhealthy allocations - rolling back to job version 1'"
    )
    assert (failed.value.id, failed.value.outputs["modifyIndex"]) == ("dev-munge", "7")
    nomad.answers["GET deployment/d"]["Status"] = "successful"
    made = kind.create(wanted, TASK)
    assert (made.id, made.outputs["deploymentStatus"]) == ("dev-munge", "successful")


def test_a_detached_job_is_not_waited_for() -> None:
    kind, nomad = jobs()
    nomad.answers = {"PUT jobs": {"EvalID": "e", "JobModifyIndex": 7}, "GET job/dev-munge": told()}
    assert kind.create(JobModel(jobspec=jobspec(), json=True), TASK).outputs["modifyIndex"] == "7"
    assert nomad.asked[0][1] == {"namespace": "physics"}


def test_a_token_without_rights_is_told_in_nomads_words() -> None:
    kind, nomad = jobs()
    nomad.answers = {"PUT jobs": 403}
    with pytest.raises(Refusal) as refused:
        kind.create(JobModel(jobspec=jobspec(), json=True), TASK)
    assert str(refused.value) == "error applying jobspec: Unexpected response code: 403 (Permission denied)"


def test_a_look_finds_what_others_changed_and_what_is_gone() -> None:
    kind, nomad = jobs()
    nomad.answers = {
        "GET job/dev-munge": told(JobModifyIndex=9, Version=1),
        "GET job/dev-munge/submission": {"Source": jobspec(Priority=70)},
    }
    state = read(JobModel, {**STATE, "type": "system", "region": "global"}).value
    assert kind.look("dev-munge", state) == {
        "jobspec": jobspec(Priority=70),
        "modifyIndex": "9",
        "version": 1,
    }
    nomad.answers["GET job/dev-munge"] = 404
    assert kind.look("dev-munge", state) is None


@pytest.mark.parametrize(("purges", "asked"), [(True, "true"), (False, "false")])
def test_a_job_is_purged_only_where_it_is_asked_for(purges: bool, asked: str) -> None:
    kind, nomad = jobs()
    nomad.answers = {"DELETE job/dev-munge": {"EvalID": ""}}
    kind.delete("dev-munge", read(JobModel, {**STATE, "purgeOnDestroy": purges}).value, TASK)
    assert nomad.asked[0][1] == {"purge": asked, "namespace": "physics"}


@pytest.mark.parametrize(
    ("inputs", "mistake"),
    [
        ({}, "one of `items,items_wo` must be specified"),
        ({"items": {"a": "b"}, "itemsWo": "{}"}, "only one of `items,items_wo` can be specified"),
        ({"itemsWo": "{}"}, "all of `items_wo,items_wo_version` must be specified"),
        ({"items": {"a": "b"}, "itemsWoVersion": 1}, "conflicts with items"),
        ({"path": "nomad/secrets/x", "items": {"a": "b"}}, "only paths at 'nomad/jobs'"),
        ({"path": "a.b", "items": {"a": "b"}}, "path a.b contains invalid characters"),
    ],
)
def test_a_variable_that_the_real_plugin_refuses_is_refused(inputs: dict[str, Any], mistake: str) -> None:
    kind = VariableKind({}, lambda _: Answers({}))
    found = [
        each.reason for each in kind.mistakes(read(VariableModel, {"path": "nomad/jobs/x", **inputs}).value)
    ]
    assert any(each.startswith(mistake) for each in found), found


def test_what_is_only_written_is_neither_compared_nor_read_back() -> None:
    kind = VariableKind({}, lambda _: Answers({"GET var/nomad/jobs/x": {"Items": {"key": "another"}}}))
    old = {"path": "nomad/jobs/x", "itemsWo": '{"key": "a"}', "itemsWoVersion": 3}
    assert kind.diff(old, {**old, "itemsWo": '{"key": "b"}'}) == ()
    assert [each.key for each in kind.diff(old, {**old, "itemsWoVersion": 4})] == ["itemsWoVersion"]
    assert kind.look("nomad/jobs/x@default", read(VariableModel, old).value) == {}


def test_items_are_read_back_and_a_path_replaces() -> None:
    kind = VariableKind({}, lambda _: Answers({"GET var/nomad/jobs/x": {"Items": {"key": "another"}}}))
    old = {"path": "nomad/jobs/x", "items": {"key": "a"}}
    assert kind.look("nomad/jobs/x@default", read(VariableModel, old).value) == {"items": {"key": "another"}}
    assert [each.replaces for each in kind.diff(old, {**old, "path": "nomad/jobs/y"})] == [True]


def test_settings_of_the_provider_that_nobody_uses_are_refused() -> None:
    with pytest.raises(Refusal, match="skipVerify"):
        Client.of({"address": "https://nomad", "skipVerify": True})
