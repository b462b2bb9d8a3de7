"""Machines of other infrastructures than this machine: what `status` tells of them, and what `down` takes away."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.standins import OUTPUTS, SPEC, Person
from tests.infrastructures.conftest import a_request
from tests.simulation.infrastructure import FakeInfrastructure
from tidepool.cli import errors, remote_infrastructure, stack_spec
from tidepool.clients.slurm import ControllerDown, Slots
from tidepool.cluster.failures import Permanent, Transient
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.infrastructures.registry import BUILT_IN, descriptor
from tidepool.infrastructures.several import Unknown

ROOT = Path(__file__).parents[2]
SPANNING = {**SPEC, "fleets": [{**SPEC["fleets"][0], "infrastructures": ["libvirt", "aws"]}]}
SINCE = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)


class Dated(FakeInfrastructure):
    """It says since when its machines run."""

    def list(self, stack: str) -> tuple[Machine, ...]:
        machines = super().list(stack)
        for machine in machines:
            object.__setattr__(machine, "since", SINCE)
        return machines


@dataclass
class Clouds:
    """What each infrastructure has; ``asked`` are those whose packages were wanted."""

    libvirt: FakeInfrastructure = field(default_factory=Dated)
    aws: FakeInfrastructure = field(default_factory=FakeInfrastructure)
    asked: list[str] = field(default_factory=list)

    def machines_or_reason(self, name: str, _spec: ClusterSpec, _stack: str, _data: Path) -> Infrastructure:
        self.asked.append(name)
        return {"libvirt": self.libvirt, "aws": self.aws}.get(name) or Unknown(f"{name} is not known here")


@pytest.fixture
def clouds(monkeypatch: pytest.MonkeyPatch) -> Clouds:
    made = Clouds()
    monkeypatch.setattr(remote_infrastructure, "machines_or_reason", made.machines_or_reason)
    monkeypatch.setattr(stack_spec, "preflight", lambda *_: ())
    return made


@pytest.fixture
def spanning(somebody: Person, clouds: Clouds) -> Person:
    """Somebody whose nodes are one of libvirt and one of AWS; both are up in Slurm."""
    somebody.write(fleets=SPANNING["fleets"])
    somebody.engine.outputs = {**OUTPUTS, "spec": SPANNING}
    somebody.slurm.create_slots(Slots("cpu-[1-4]", addresses="10.99.1.[1-4]", cpus=1, memory_mib=64))
    somebody.slurm.boot("cpu-1", "cpu-2")
    clouds.libvirt.create(a_request("dev", 1))
    clouds.aws.create(a_request("dev", 2))
    (somebody.context.data / "state").mkdir(parents=True)
    return somebody


def status(person: Person) -> dict[str, Any]:
    said = person.runs("status", "--json")
    assert said.exit_code == 0, said.output
    told: dict[str, Any] = json.loads(said.stdout)
    return told


def problems(told: dict[str, Any]) -> dict[str, str]:
    return {each["what"]: each["remedy"] for each in told["problems"]}


# status


def test_machines_of_each_infrastructure_are_told(spanning: Person) -> None:
    told = status(spanning)
    assert told["machines"] == [
        {
            "name": "cpu-1",
            "infrastructure": "libvirt",
            "state": "running",
            "since": "2026-11-20T08:30:00.000Z",
            "address": "10.77.1.1",
            "id": told["machines"][0]["id"],
        },
        {
            "name": "cpu-2",
            "infrastructure": "aws",
            "state": "running",
            "since": None,
            "address": "10.77.1.2",
            "id": told["machines"][1]["id"],
        },
    ]
    assert (told["silent"], told["problems"]) == ({}, [])
    lines = [line.split() for line in spanning.runs("status", "--all").output.splitlines()]
    assert any(line[:3] == ["cpu-1", "libvirt", "running"] and "Nov" in line for line in lines)
    assert any(line[:3] == ["cpu-2", "aws", "running"] for line in lines)


def test_of_many_that_are_well_only_the_number_is_shown(spanning: Person, clouds: Clouds) -> None:
    clouds.aws.create(a_request("dev", 3))
    clouds.aws.stop(MachineKey("dev", "cpu-3"))
    said = spanning.runs("status").output
    assert [line.split()[:4] for line in said.splitlines() if "more" in line] == [
        ["and", "1", "more", "aws"],
        ["and", "1", "more", "libvirt"],
    ]
    assert "machine cpu-3 of aws is stopped" in said


def test_one_that_cannot_be_asked_has_its_own_line_and_the_others_are_told(
    spanning: Person, clouds: Clouds
) -> None:
    clouds.aws.fail(Transient("no route to AWS"))
    told = status(spanning)
    assert [machine["name"] for machine in told["machines"]] == ["cpu-1"]
    assert told["silent"] == {"aws": "no route to AWS"}
    # The node may well have its machine there.
    assert problems(told) == {
        "machines of aws cannot be listed: no route to AWS": "`tidepool doctor` looks at aws"
    }
    clouds.aws.fail(Transient("no route to AWS"))
    said = spanning.runs("status")
    assert (said.exit_code, said.exception) == (0, None)
    (line,) = (line for line in said.output.splitlines() if "cannot be listed" in line)
    assert "no route to AWS" in line
    assert "`tidepool doctor` looks at aws" in line


def test_where_none_answers_slurm_is_told_all_the_same(spanning: Person, clouds: Clouds) -> None:
    for cloud in (clouds.aws, clouds.libvirt):
        cloud.fail(Permanent("not allowed"))
    told = status(spanning)
    assert sorted(told["silent"]) == ["aws", "libvirt"]
    assert told["fleets"][0]["up"] == 2


def test_one_that_hangs_is_not_waited_for(
    spanning: Person, clouds: Clouds, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    class Hanging(FakeInfrastructure):
        def list(self, stack: str) -> tuple[Machine, ...]:
            go_on.wait(60)
            return ()

    clouds.aws = Hanging()
    real = remote_infrastructure.machines_of
    monkeypatch.setattr(remote_infrastructure, "machines_of", lambda stack, named: real(stack, named, 0.1))
    try:
        assert status(spanning)["silent"] == {"aws": "it has not answered within 0.1 s"}
    finally:
        go_on.set()


def test_a_node_without_a_machine_anywhere_is_told(spanning: Person, clouds: Clouds) -> None:
    clouds.aws.vanish(MachineKey("dev", "cpu-2"))
    assert problems(status(spanning)) == {"node cpu-2 has no machine": "`tidepool up` makes it"}


def test_a_machine_that_is_no_node_and_a_node_with_two_machines_are_told(
    spanning: Person, clouds: Clouds
) -> None:
    clouds.aws.create(a_request("dev", 4))
    clouds.aws.create(a_request("dev", 1))
    assert {*problems(status(spanning))} == {
        "machine cpu-4 is no node of Slurm's",
        "node cpu-1 has several machines",
    }


def test_machines_of_an_up_that_did_not_come_to_its_end_are_told(somebody: Person, clouds: Clouds) -> None:
    """There are no outputs of it, so that the stack's file says which infrastructures there are."""
    somebody.write(fleets=SPANNING["fleets"])
    somebody.engine.outputs = {}
    clouds.aws.create(a_request("dev", 2))
    somebody.slurm.fail(ControllerDown("no answer", where="there", remedy="wait"))
    said = somebody.runs("status", "--json")
    assert said.exit_code == errors.NOT_THERE
    assert [machine["name"] for machine in json.loads(said.stdout)["machines"]] == ["cpu-2"]


def test_an_infrastructure_that_the_state_alone_names_is_told_with_what_mends_it(
    somebody: Person, clouds: Clouds
) -> None:
    somebody.engine.outputs = {**OUTPUTS, "spec": SPEC}
    resource = {
        "urn": "urn:pulumi:dev::c::aws:ec2/instance:Instance::cpu-1",
        "type": descriptor("aws").types[0],
    }
    somebody.engine.exported = {"deployment": {"resources": [resource]}}
    told = status(somebody)
    assert (
        "neither its outputs nor its file say how it is reached: write it into the spec"
        in told["silent"]["aws"]
    )
    assert clouds.asked == []


def test_a_stack_that_is_not_there_is_asked_of_nobody(somebody: Person, clouds: Clouds) -> None:
    somebody.write(fleets=SPANNING["fleets"])
    assert somebody.runs("status").exit_code == errors.NOT_THERE
    assert clouds.asked == []


def test_status_and_down_of_a_stack_of_this_machine_load_nothing_of_the_others(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.cli.standins import OUTPUTS, SPEC, person\n"
        f"ada = person(Path({str(tmp_path)!r}) / 'project', Path({str(tmp_path)!r}) / 'data')\n"
        "ada.engine.outputs = {**OUTPUTS, 'spec': SPEC}\n"
        "(ada.context.data / 'state').mkdir(parents=True)\n"
        "for words in (('status', '--json'), ('down', '--yes', '--json')):\n"
        "    said = ada.runs(*words)\n"
        "    assert said.exit_code == 0, said.output\n"
        "sys.stdout.write('\\n'.join(sys.modules))\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    packages = {package for name, package in BUILT_IN.items() if name != "local"}
    assert not {*said.stdout.split()} & {*packages, "boto3", "paramiko"}


# down


def test_down_takes_what_no_state_knows_everywhere_and_tells_before_and_after(
    spanning: Person, clouds: Clouds
) -> None:
    clouds.aws.create(a_request("dev", 4))
    for other in ("dev-2", "physics"):
        clouds.aws.create(a_request(other, 2))
    said = spanning.runs("down", "--yes")
    assert said.exit_code == 0, said.output
    assert "aws: deleting the machines cpu-[2,4], which no state knows" in said.stderr
    assert "libvirt: deleting the machines cpu-1, which no state knows" in said.stderr
    assert "Swept, for no state knew of them: the machines cpu-[2,4] of aws." in said.stdout
    assert "Swept, for no state knew of them: the machines cpu-1 of libvirt." in said.stdout
    assert clouds.aws.list("dev") == clouds.libvirt.list("dev") == ()
    assert [len(clouds.aws.list(other)) for other in ("dev-2", "physics")] == [1, 1]


def test_down_tells_of_them_in_json(spanning: Person) -> None:
    spanning.engine.events = [
        {"summaryEvent": {"isPreview": False, "resourceChanges": {}, "result": "succeeded"}}
    ]
    told = json.loads(spanning.runs("down", "--yes", "--json").stdout)
    assert told["swept"] == {
        "machines": [],
        "networks": [],
        "elsewhere": {"aws": ["cpu-2"], "libvirt": ["cpu-1"]},
    }
    told = json.loads(spanning.runs("down", "--yes", "--json").stdout)
    assert told["swept"] == {"machines": [], "networks": [], "elsewhere": {}}


def test_one_that_is_kept_from_being_deleted_is_named_and_nothing_is_purged(
    spanning: Person, clouds: Clouds
) -> None:
    home = spanning.context.data / "dev" / "volumes" / "home"
    home.mkdir(parents=True)
    clouds.aws.refuse_deletion("cpu-2")
    said = spanning.runs("down", "--yes", "--purge")
    assert said.exit_code == errors.FAILED
    assert "of stack dev there is still: machine cpu-2 (machine-1) of stack dev on aws: " in said.stderr
    assert "`tidepool down` again" in said.stderr
    assert "Swept, for no state knew of them: the machines cpu-1 of libvirt." in said.stderr
    assert clouds.libvirt.list("dev") == ()
    assert home.exists()
    clouds.aws.release("cpu-2")
    assert spanning.runs("down", "--yes", "--purge").exit_code == 0
    assert not home.exists()


def test_where_one_cannot_be_asked_it_is_not_known_that_nothing_is_left(
    spanning: Person, clouds: Clouds
) -> None:
    clouds.aws.fail(Transient("no route to AWS"))
    said = spanning.runs("down", "--yes")
    assert said.exit_code == errors.FAILED
    assert "there is still: machines of aws, for it cannot be asked: no route to AWS" in said.stderr
    assert clouds.libvirt.list("dev") == ()


def test_what_a_failed_destroy_left_is_not_swept_there_either(spanning: Person, clouds: Clouds) -> None:
    spanning.engine.code = 1
    assert spanning.runs("down", "--yes").exit_code == errors.FAILED
    assert len(clouds.aws.list("dev")) == len(clouds.libvirt.list("dev")) == 1


def test_without_a_state_machines_may_be_of_one_that_is_kept_elsewhere(
    spanning: Person, clouds: Clouds
) -> None:
    spanning.engine.outputs = None
    for words in (("down", "--yes"), ("down", "--yes", "--force", "--purge")):
        said = spanning.runs(*words)
        assert said.exit_code == errors.FAILED
        assert "machines say that they are of it: aws has cpu-2; libvirt has cpu-1" in said.stderr
        assert "run it where the state is" in said.stderr
    assert len(clouds.aws.list("dev")) == len(clouds.libvirt.list("dev")) == 1


def test_without_a_state_and_an_answer_it_is_a_warning(spanning: Person, clouds: Clouds) -> None:
    spanning.engine.outputs = None
    clouds.aws.fail(Transient("no route to AWS"))
    clouds.libvirt.delete(MachineKey("dev", "cpu-1"))
    said = spanning.runs("down")
    assert said.exit_code == 0
    assert said.stdout == "There is nothing of stack dev.\n"
    assert "warning: aws cannot be asked for machines of stack dev: no route to AWS" in said.stderr


@pytest.mark.parametrize("silent", [False, True])
def test_where_slurm_is_silent_and_machines_run_elsewhere_down_is_refused(
    spanning: Person, clouds: Clouds, silent: bool
) -> None:
    def slurm_fails() -> None:
        spanning.slurm.fail(ControllerDown("no answer", where="there", remedy="wait"))

    slurm_fails()
    if silent:
        for cloud in (clouds.aws, clouds.libvirt):
            cloud.fail(Transient("no route"))
    said = spanning.runs("down", "--yes")
    assert said.exit_code == errors.NOT_THERE, said.output
    assert "`tidepool down --force` takes it down regardless" in said.stderr
    assert spanning.engine.ran == []
    slurm_fails()
    assert spanning.runs("down", "--yes", "--force").exit_code == 0
