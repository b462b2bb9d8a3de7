"""A machine on Nomad is a host that is taken, waited for and given back; what goes wrong is told by its kind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.nomad.fake import FakeNomad, hosts, served
from tests.provider.calls import Calls, plainly
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient, unmarked
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.nomad.api import Api
from tidepool.infrastructures.nomad.kinds import NomadMachineKind
from tidepool.infrastructures.nomad.machines import NomadMachines
from tidepool.infrastructures.nomad.options import SiteOptions
from tidepool.infrastructures.nomad.resources import NomadMachineModel
from tidepool.provider.provider import InitializationFailed
from tidepool.resources.kind import Home, Task, Unfinished
from tidepool.resources.reading import read

JOBS = ["dev-munge-cpu", "dev-slurmd-cpu"]


@dataclass
class There:
    """A Nomad of three hosts with the jobs of a fleet, and the kind whose resources are there."""

    nomad: FakeNomad
    address: str
    folder: Path

    def machine(self, name: str = "cpu-1", **changes: Any) -> dict[str, Any]:
        return {
            "api": {"address": self.address},
            "namespace": "default",
            "stack": "dev",
            "machine": name,
            "fleet": "cpu",
            "address": "10.77.10.1",
            "constraints": ["${meta.rack} = r1"],
            "drivers": ["raw_exec"],
            "datacenters": ["*"],
            "nodePool": "all",
            "jobs": JOBS,
            **changes,
        }

    def machines(self) -> Calls:
        return Calls(self.folder, "tidepool:nomad:Machine")

    def made(self) -> tuple[str, dict[str, Any]]:
        """The id of a machine that is there, and its state."""
        machines = self.machines()
        answer = machines.create(machines.checked(self.machine()))
        assert answer.resource_id
        return answer.resource_id, plainly(answer.properties)


@pytest.fixture
def there(tmp_path: Path) -> Iterator[There]:
    nomad = FakeNomad(*hosts(3))
    for job in JOBS:
        nomad.jobs[job] = {"tidepool_stack": "dev", "tidepool_fleet": "cpu"}
    with served(nomad) as address:
        yield There(nomad, address, tmp_path)


def test_a_machine_is_a_free_host_that_is_told_so_and_its_jobs_run_there(there: There) -> None:
    id, state = there.made()
    assert id.partition("/")[0] == "id-alpha"
    assert state == {**there.machine(), "state": "running", "host": "alpha"}
    assert there.nomad.running("alpha") == JOBS


def test_one_that_was_cut_off_is_made_once(there: There) -> None:
    assert there.made() == there.made()
    assert there.nomad.running("beta") == []


def test_a_preview_asks_nothing_of_hosts(there: There) -> None:
    machines = there.machines()
    checked = machines.checked(there.machine())
    assert machines.create(checked, preview=True).resource_id is None
    machines.update("id-alpha/dev/cpu-1", checked, {**checked, "drivers": ["docker"]}, preview=True)
    assert there.nomad.requests == []


@pytest.mark.parametrize(
    ("change", "replaces"),
    [
        ({"drivers": ["raw_exec", "docker"]}, False),
        ({"jobs": [*JOBS, "dev-agent"]}, False),
        ({"api": {"address": "http://alpha:4646"}}, False),
        ({"constraints": ["${meta.rack} = r2"]}, True),
        ({"datacenters": ["lugano"]}, True),
        ({"nodePool": "hpc"}, True),
        ({"address": "10.77.10.9"}, True),
        ({"fleet": "gpu"}, True),
        ({"machine": "cpu-9"}, True),
        ({"namespace": "physics"}, True),
        ({"stack": "other"}, True),
    ],
)
def test_other_hosts_are_another_machine_and_the_old_one_goes_first(
    there: There, change: dict[str, Any], replaces: bool
) -> None:
    found = there.machines().diff(there.machine(), there.machine(**change))
    assert found.changes
    assert found.replaces == ([*change] if replaces else [])
    assert bool(found.delete_before_replace) is replaces


def test_a_job_that_comes_later_is_waited_for_on_the_same_host(there: There) -> None:
    id, state = there.made()
    there.nomad.jobs["dev-agent"] = {"tidepool_fleet": "cpu"}
    updated = there.machines().update(id, state, there.machine(jobs=[*JOBS, "dev-agent"]))
    assert plainly(updated.properties)["host"] == "alpha"
    assert there.nomad.running("alpha") == ["dev-agent", *JOBS]


def test_a_machine_that_is_as_it_was_made_is_read_so(there: There) -> None:
    id, state = there.made()
    found = there.machines().read(id, state, state)
    assert (found.resource_id, plainly(found.properties)) == (id, state)


@pytest.mark.parametrize("gone", ["its metadata", "its host"])
def test_a_machine_that_is_gone_from_outside_is_made_again(there: There, gone: str) -> None:
    id, state = there.made()
    if gone == "its host":
        del there.nomad.hosts["id-alpha"]
    else:
        there.nomad.tell("alpha", tidepool_stack=None, tidepool_node=None)
    assert not there.machines().read(id, state, state).resource_id
    again, _ = there.made()
    assert again.partition("/")[0] == ("id-beta" if gone == "its host" else "id-alpha")
    assert again != id, "it is another machine"


def test_a_host_that_was_taken_out_of_service_serves_again(there: There) -> None:
    id, state = there.made()
    there.nomad.host("alpha").eligibility = "ineligible"
    machines = there.machines()
    stopped = plainly(machines.read(id, state, state).properties)
    assert stopped["state"] == "stopped"
    checked = machines.checked(there.machine())
    assert machines.diff(stopped, checked).diffs == ["state"]
    machines.update(id, stopped, checked)
    assert there.nomad.host("alpha").eligibility == "eligible"
    assert plainly(machines.read(id, state, state).properties)["state"] == "running"


def test_a_host_that_is_down_is_not_changed_for_another_by_an_update(there: There) -> None:
    id, state = there.made()
    there.nomad.host("alpha").status = "down"
    with pytest.raises(
        Transient, match="its host alpha is down: start that, or have the scaler take another"
    ):
        there.machines().update(id, {**state, "state": "stopped"}, state)
    assert there.nomad.running("beta") == []


def test_a_machine_whose_host_is_down_is_given_up_at_once_and_swept_when_that_is_back(there: There) -> None:
    id, state = there.made()
    there.nomad.host("alpha").status = "down"
    said: list[str] = []
    kind = NomadMachineKind(Home(there.folder, there.folder))
    task = Task("urn", 60.0, time.monotonic() + 60, said.append, said.append, said.append)
    kind.delete(id, read(NomadMachineModel, state).value, task)
    (warned,) = said
    assert "its host alpha is down, and is given back when it is up again" in warned
    assert "nomad node meta apply -node-id id-alpha -unset tidepool_stack," in warned
    # Its successor is elsewhere.
    successor, _ = there.made()
    assert successor.partition("/")[0] == "id-beta"
    place = SiteOptions.model_validate({"interface": "eth0", "volumes": {"home": "/home"}})
    machines = NomadMachines(Api(there.address), place)
    old = MachineKey("dev", "cpu-1", id)
    with pytest.raises(Transient, match="its host alpha is down"):
        machines.delete(old)
    there.nomad.host("alpha").status = "ready"
    machines.delete(old)
    assert there.nomad.host("alpha").told == {"rack": "r1"}
    assert there.nomad.running("beta") == JOBS


def test_a_deleted_machine_leaves_its_host_as_it_was_and_deleting_it_again_is_no_mistake(
    there: There,
) -> None:
    id, state = there.made()
    for _ in range(2):
        there.machines().delete(id, state)
        assert there.nomad.host("alpha").told == {"rack": "r1"}
        assert there.nomad.running("alpha") == []
        assert not there.machines().read(id, state, state).resource_id


def test_a_host_that_was_given_back_is_taken_again(there: There) -> None:
    id, state = there.made()
    there.machines().delete(id, state)
    again, _ = there.made()
    assert again.partition("/")[0] == "id-alpha"
    assert there.nomad.running("alpha") == JOBS
    assert "POST job/dev-slurmd-cpu/evaluate" in there.nomad.requests


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"address": "10.77.10"}, "address", "an IPv4 address is wanted"),
        ({"constraints": ["rack r1"]}, "constraints[0]", "write it as in '${meta.rack} = r1'"),
        ({"colour": "red"}, "colour", "there is no such input"),
        ({"machine": ""}, "machine", "it is empty"),
        ({"api": {"region": "eu"}}, "api.address", "it is missing"),
    ],
)
def test_what_is_no_machine_is_refused(there: There, change: dict[str, Any], key: str, words: str) -> None:
    assert words in there.machines().failures(there.machine(**change))[key]
    assert there.nomad.requests == []


# What goes wrong with machines


def test_no_free_host_is_want_of_capacity_and_says_what_each_one_lacks(there: There) -> None:
    with pytest.raises(InsufficientCapacity, match=r"alpha: \$\{meta\.rack\} is r1, and not r9"):
        there.machines().create(there.machine(constraints=["${meta.rack} = r9"]))
    assert [host.told for host in there.nomad.hosts.values()] == [{"rack": "r1"}] * 3


def test_a_lost_answer_is_passing_and_the_next_attempt_has_the_same_host(there: There) -> None:
    there.nomad.lose = 1
    with pytest.raises(Transient, match="does not answer POST"):
        there.machines().create(there.machine())
    assert there.made()[0].partition("/")[0] == "id-alpha"


def test_a_delete_that_is_not_allowed_is_for_good_and_leaves_the_machine(there: There) -> None:
    id, state = there.made()
    there.nomad.denied.add("node:write")
    with pytest.raises(Permanent, match="403: Permission denied"):
        there.machines().delete(id, state)
    assert there.machines().read(id, state, state).resource_id == id


class Waiting:
    """The kind with a clock of its own, which moves while it sleeps."""

    def __init__(self, there: There) -> None:
        self.there = there
        self.said: list[str] = []
        self.now = 0.0
        self.kind = NomadMachineKind(Home(there.folder, there.folder), sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def task(self) -> Task:
        """One that has five seconds from now."""
        waiting, ends = self, self.now + 5.0

        class Clocked(Task):
            @property
            def left_s(self) -> float:
                return ends - waiting.now

        return Clocked("urn", 5.0, 0.0, self.said.append, self.said.append, self.said.append)

    def wanted(self) -> NomadMachineModel:
        return read(NomadMachineModel, self.there.machine()).value


def test_a_job_that_does_not_start_is_waited_for_and_then_told_and_the_host_is_kept(there: There) -> None:
    del there.nomad.jobs["dev-slurmd-cpu"]
    waiting = Waiting(there)
    with pytest.raises(Unfinished) as raised:
        waiting.kind.create(waiting.wanted(), waiting.task())
    assert waiting.said == ["waiting for dev-slurmd-cpu on alpha"]
    assert 4 <= waiting.now <= 5
    unfinished = raised.value
    assert unfinished.id.partition("/")[0] == "id-alpha"
    assert (unfinished.outputs, unfinished.cause) == ({"host": "alpha"}, "boot")
    assert "dev-slurmd-cpu does not run on alpha within 5 s: see `nomad job status -namespace default" in str(
        unfinished
    )


def test_pulumi_keeps_what_is_not_finished_with_its_host_and_the_scaler_is_told_its_kind(
    there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    del there.nomad.jobs["dev-slurmd-cpu"]
    monkeypatch.setattr("tidepool.infrastructures.nomad.kinds._AGAIN_S", 1e9)
    machines = there.machines()
    with pytest.raises(InitializationFailed) as raised:
        machines.create(machines.checked(there.machine()))
    assert raised.value.id.partition("/")[0] == "id-alpha"
    assert plainly(raised.value.properties)["host"] == "alpha"
    assert unmarked(raised.value.reason)[1] == "boot"


def test_a_machine_whose_jobs_do_not_end_in_time_is_there_still_and_goes_the_next_time(there: There) -> None:
    id, _ = there.made()
    there.nomad.late = 10**6
    waiting = Waiting(there)
    with pytest.raises(Transient, match="Nomad does not know yet that alpha is not it any more"):
        waiting.kind.delete(id, waiting.wanted(), waiting.task())
    there.nomad.late = 0
    there.nomad.tell("alpha")
    waiting.kind.delete(id, waiting.wanted(), waiting.task())
    assert there.nomad.host("alpha").told == {"rack": "r1"}
