"""The cluster of a run as its stack shows it: what is left of it, wherever its machines come from; and its use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from tests.cli.standins import OUTPUTS, SPEC, Person
from tidepool.cli.problems import RemoteMachines
from tidepool.cli.runs import stack_cluster
from tidepool.cli.runs.stack_cluster import StackCluster
from tidepool.cli.runs.verbs import VerbServer
from tidepool.cli.stack import find_stack
from tidepool.cluster.spec_reading import read_spec
from tidepool.infrastructures import Machine, MachineKey
from tidepool.runs.ports import RunError

Made = Callable[..., StackCluster]
IMAGE = {
    "urn": "urn:pulumi:dev::cluster::tidepool:components:GoldenImage$tidepool:image:Image::debian-12",
    "type": "tidepool:image:Image",
    "outputs": {"digest": "d1"},
}


@pytest.fixture
def made(somebody: Person) -> Iterator[Made]:
    """One whose machines are here and at nomad's."""
    servers: list[VerbServer] = []

    def make() -> StackCluster:
        fleets = [{**SPEC["fleets"][0], "infrastructures": ["local", {"name": "nomad", "options": {}}]}]
        somebody.write(fleets=fleets)
        (somebody.context.data / "state").mkdir(parents=True, exist_ok=True)
        stack = find_stack(somebody.context, "dev", None)
        servers.append(VerbServer.start(stack))
        since = datetime.now(UTC) - timedelta(hours=1)
        return StackCluster(stack, read_spec(dict(SPEC)), since, somebody.folder / "log", servers[-1])

    yield make
    for each in servers:
        each.close()


def machine(stack: str) -> Machine:
    return Machine(MachineKey(stack, "cpu-1", "m1", "nomad"), IPv4Address("10.99.1.1"), "running")


def elsewhere(monkeypatch: pytest.MonkeyPatch, *machines: Machine, **silent: str) -> None:
    """What infrastructures that are not this machine tell."""
    found = RemoteMachines(machines, silent)
    monkeypatch.setattr(stack_cluster, "observe_remote", lambda stack, named: found)


def test_of_one_that_is_nowhere_nothing_is_left(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch, machine("other"))
    assert made().see() == "absent"


def test_a_machine_in_a_cloud_is_something_that_is_left(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch, machine("dev"), libvirt="no route")
    assert made().see() == "partial"


def test_where_a_cloud_does_not_tell_nothing_is_known(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch, machine("other"), nomad="no route to it")
    with pytest.raises(RunError, match="whether machines are left is not known: nomad: no route to it"):
        made().see()


def test_resources_without_outputs_are_left(somebody: Person, made: Made) -> None:
    somebody.engine.outputs = {}
    somebody.engine.exported = {"deployment": {"resources": [IMAGE]}}
    assert made().see() == "partial"


def test_use_is_of_what_is_there(somebody: Person, made: Made) -> None:
    somebody.engine.outputs = OUTPUTS
    somebody.engine.exported = {"deployment": {"resources": [IMAGE, {"urn": "x", "type": "y"}]}}
    use = made().use()
    assert use.images == {"debian-12": "d1"}
    assert use.nodes == ("cpu-1", "cpu-2")
    # No scaler has counted: a controller, a login machine and two nodes, for an hour.
    assert use.cost.node_hours == {"": pytest.approx(2, abs=0.1), "cpu": pytest.approx(2, abs=0.1)}


def test_of_one_that_is_down_the_last_use_is_kept(made: Made) -> None:
    with pytest.raises(RunError, match="is not up: what it cost was read before"):
        made().use()


def test_its_file_goes_when_it_is_asked_to(somebody: Person, made: Made) -> None:
    cluster = made()
    file: Path = somebody.folder / "Pulumi.dev.yaml"
    assert file.exists()
    for _ in range(2):
        cluster.remove_file()
        assert not file.exists()


def test_a_verb_that_fails_is_told_with_its_last_lines(made: Made) -> None:
    # nomad's options lack what it needs.
    with pytest.raises(RunError, match=r"`tidepool up` ended with exit code [0-9]+: .*\(all of it: .*log\)"):
        made().up()
