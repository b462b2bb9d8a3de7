"""A new infrastructure is one folder: the toy is registered by its descriptor alone, by an entry point, and goes everywhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime.mocks import MockResourceArgs

from tests.cli.standins import OUTPUTS, SPEC, Person, person
from tests.infrastructures.toy.machines import ToyMachines
from tests.provider.stack import CHECKOUT, Stack
from tidepool.cli import errors, stack_spec
from tidepool.clients.slurm import Slots
from tidepool.cluster.failures import InsufficientCapacity
from tidepool.cluster.spec import ClusterSpec
from tidepool.components import Cluster
from tidepool.infrastructures import MachineKey, registry
from tidepool.infrastructures.registry import failure_kind_of, infrastructure_of_type, machines_of
from tidepool.testing import provider_outputs, register

TYPE = "tidepool:toy:Machine"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the toy's package, as pip would write it: what it takes to make it known."""
    folder = tmp_path / "packages"
    package = folder / "toy-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (package / "entry_points.txt").write_text(
        "[tidepool.infrastructures]\ntoy = tests.infrastructures.toy:INFRASTRUCTURE\n"
    )
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    forget()
    yield folder
    forget()


def forget() -> None:
    """Entry points are searched once in a process."""
    registry._entry_points.cache_clear()
    registry._find.cache_clear()


def spec_on(folder: Path) -> dict[str, Any]:
    """All machines are the toy's, the cluster's own too."""
    own = {**SPEC["controller"], "infrastructure": {"name": "toy", "options": {"folder": str(folder)}}}
    return {**SPEC, "controller": own, "fleets": [{**SPEC["fleets"][0], "infrastructures": ["toy"]}]}


def test_a_whole_cluster_is_registered_with_machines_of_the_toy(installed: Path, tmp_path: Path) -> None:
    def outputs(args: MockResourceArgs) -> Mapping[str, Any]:
        connection = {"kind": "ssh", "stack": "dev", "address": args.inputs.get("address"), "user": "root"}
        return {"number": "n", "connection": connection} if args.typ == TYPE else provider_outputs(args)

    spec = ClusterSpec.model_validate(spec_on(tmp_path))
    graph = register(lambda: Cluster("dev", spec), outputs)
    names = {each.urn.rpartition("::")[2] for each in graph.of_type(TYPE).values()}
    assert names == {"ctl", "login-1", "cpu-1", "cpu-2"}
    assert not [name for name in graph.resources if name.startswith("tidepool:local:Machine")]
    assert graph["tidepool:slurm:Node cpu-1"].inputs["machine"]["address"] == "10.99.1.1"


def test_the_engine_makes_them_by_the_real_plugin_and_takes_them_away(
    installed: Path, tmp_path: Path
) -> None:
    there = tmp_path / "machines"
    there.mkdir()
    paths = {"PYTHONPATH": f"{CHECKOUT}:{installed}"}
    program = Path(__file__).parent / "toy" / "program"
    stack = Stack(tmp_path / "stack", tmp_path / "images", program=program, more=paths)
    stack.init()
    stack.wanted = {"spec": spec_on(there)}
    stack.done("up")
    machines = ToyMachines(there).list("dev")
    assert [str(each.address) for each in machines] == ["10.91.1.1", "10.91.1.2"]
    ToyMachines(there).delete(MachineKey("dev", "cpu-1"))
    stack.done("up", "--refresh")
    again, other = ToyMachines(there).list("dev")
    assert other == machines[1]
    assert again.machine_id != machines[0].machine_id
    stack.done("destroy")
    assert ToyMachines(there).list("dev") == ()


@pytest.fixture
def somebody(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Somebody whose nodes are the toy's: both are up, and a third is known by no state."""
    monkeypatch.setattr(stack_spec, "preflight", lambda *_: ())
    machines = tmp_path / "machines"
    machines.mkdir()
    made = person(tmp_path / "project", tmp_path / "data")
    spec = spec_on(machines)
    made.write(controller=spec["controller"], fleets=spec["fleets"])
    made.engine.outputs = {**OUTPUTS, "spec": spec}
    made.slurm.create_slots(Slots("cpu-[1-4]", addresses="10.99.1.[1-4]", cpus=1, memory_mib=64))
    made.slurm.boot("cpu-1", "cpu-2")
    for number in (1, 2, 3):
        ToyMachines(machines).make(MachineKey("dev", f"cpu-{number}"), f"10.99.1.{number}")
    (made.context.data / "state").mkdir(parents=True)
    return made


def test_doctor_says_whether_it_is_fit(somebody: Person, tmp_path: Path) -> None:
    assert "/machines is there" in somebody.runs("doctor").output
    (tmp_path / "machines").rename(tmp_path / "elsewhere")
    assert "there is no folder" in somebody.runs("doctor").output


def test_status_tells_of_its_machines_and_down_takes_away_what_no_state_knows(
    somebody: Person, tmp_path: Path
) -> None:
    told = json.loads(somebody.runs("status", "--json").stdout)
    assert [(each["name"], each["infrastructure"]) for each in told["machines"]] == [
        (f"cpu-{number}", "toy") for number in (1, 2, 3)
    ]
    said = somebody.runs("down", "--yes")
    assert said.exit_code == 0, said.output
    assert "Swept, for no state knew of them: the machines cpu-[1-3] of toy." in said.stdout
    assert ToyMachines(tmp_path / "machines").list("dev") == ()


def test_its_machines_are_known_by_their_type_and_failures_by_their_words(installed: Path) -> None:
    assert infrastructure_of_type(TYPE) == "toy"
    assert failure_kind_of("toy")("no room, for there is no folder") is InsufficientCapacity


def test_options_are_checked_and_what_is_not_installed_is_refused(
    somebody: Person, installed: Path, tmp_path: Path
) -> None:
    assert machines_of("toy", ClusterSpec.model_validate(spec_on(tmp_path)), "dev", tmp_path).list("x") == ()
    (installed / "toy-1.dist-info" / "entry_points.txt").unlink()
    forget()
    said = somebody.runs("preview")
    assert said.exit_code == errors.LACKS
    assert "infrastructure toy: this release does not know it; known are local, libvirt, " in said.stderr
