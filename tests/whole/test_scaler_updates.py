"""The scaler's updates: quick ones of few nodes, which carry out nothing else, fail alone and may be cut off anywhere."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pulumi import automation

import tidepool
from tests.whole.cluster import Cluster
from tests.whole.conftest import a_cluster
from tidepool.cluster import hostlist
from tidepool.cluster.desired_state import DesiredNodes
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec_reading import read_spec
from tidepool.engine.warm import WarmPulumiCommand, warm_command
from tidepool.infrastructures.local.kernel import list_machines
from tidepool.scaling.cluster_state import Recorded
from tidepool.scaling.ports import UpOutcome
from tidepool.scaling.stack.pulumi_stack import PulumiStack, StackLocation

pytestmark = pytest.mark.slow

_FLEET = "tidepool:components:ComputeFleet"


class Scaler:
    """What changes the nodes of a cluster as the daemon does."""

    def __init__(self, cluster: Cluster, command: WarmPulumiCommand, env: dict[str, str]) -> None:
        self.cluster = cluster
        self._command = command
        self._env = env

    def up(self, wish: str, nodes: str, *, kill_at: str = "") -> str:
        """Make ``nodes`` as ``wish`` says; what went wrong, or nothing. It is killed when it says ``kill_at``."""
        names = hostlist.expand(nodes)
        env = {**self._env, **DesiredNodes({"cpu": HostSet(wish)}, HostSet(nodes)).environment}
        stack = automation.select_stack(
            self.cluster.stack,
            work_dir=str(self.cluster.folder),
            opts=automation.LocalWorkspaceOptions(pulumi_command=self._command, env_vars=env),
        )
        urns = f"urn:pulumi:{self.cluster.stack}::cluster::{_FLEET}$"
        kinds = ("tidepool:local:Machine", "tidepool:slurm:Node")
        targets = [f"{urns}{kind}::{name}" for kind in kinds for name in names]

        def hear(line: str) -> None:
            if kill_at and kill_at in line:
                for operation in self._command._under_way:
                    signal.pidfd_send_signal(operation._process, signal.SIGKILL)  # type: ignore[attr-defined]

        try:
            stack.up(target=targets, continue_on_error=True, parallel=256, on_output=hear)
        except automation.CommandError as error:
            return str(error)
        return ""

    def stack(self) -> PulumiStack:
        """As the daemon has it."""
        cluster, state = self.cluster, self.cluster.data / "state" / ".pulumi"
        place = StackLocation(
            cluster.stack,
            "cluster",
            cluster.folder,
            cluster.data / cluster.stack,
            self._env,
            state / "stacks" / "cluster" / f"{cluster.stack}.json",
            state / "locks" / "organization" / "cluster" / cluster.stack,
            state / "journals" / "cluster" / f"{cluster.stack}.journal",
        )
        return PulumiStack(place, self._command, lambda: read_spec(cluster.spec))

    def state(self) -> set[str]:
        """The names of the nodes that the state has."""
        return {node["urn"].rpartition("::")[2] for node in self._of_type("tidepool:slurm:Node")}

    def outputs(self) -> dict[str, Any]:
        (stack,) = self._of_type("pulumi:pulumi:Stack")
        told: dict[str, Any] = stack["outputs"]
        return told

    def _of_type(self, type: str) -> list[dict[str, Any]]:
        (file,) = (self.cluster.data / "state").rglob(f"stacks/*/{self.cluster.stack}.json")
        resources = json.loads(file.read_bytes())["checkpoint"]["latest"]["resources"]
        return [each for each in resources if each["type"] == type]

    def machines(self) -> set[str]:
        there = list_machines(self.cluster.data, self.cluster.stack)
        return {each.name for each in there if each.name.startswith("cpu-")}


@pytest.fixture(scope="module")
def scaler(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scaler]:
    """Of a cluster with nodes cpu-1 and cpu-2, and room up to cpu-8."""
    with a_cluster(tmp_path_factory.mktemp("wish"), images) as cluster:
        env = {
            **cluster.environment,
            "PULUMI_BACKEND_URL": f"file://{cluster.data}/state",
            "PULUMI_CONFIG_PASSPHRASE_FILE": f"{cluster.data}/passphrase",
            "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
        }
        watched = [Path(tidepool.__file__).parent, cluster.folder / "__main__.py"]
        with warm_command(
            env, folder=cluster.folder, modules=["tidepool.components"], plugins=["tidepool"], watched=watched
        ) as command:
            yield Scaler(cluster, command, env)


def test_nodes_come_and_go_and_what_a_person_edits_meanwhile_waits_for_a_person(scaler: Scaler) -> None:
    cluster = scaler.cluster
    before = scaler.outputs()["spec"]
    new = {**cluster.spec["fleets"][0], "name": "new", "subnet": "10.78.2.0/24", "min_nodes": 1}
    cluster.spec["fleets"].append(new)
    cluster.spec["partitions"].append({"name": "later", "fleets": ["cpu"]})
    cluster.write_spec()
    assert scaler.up("cpu-[1-5]", "cpu-[3-5]") == ""
    assert cluster.idle() == sorted(scaler.state()) == [f"cpu-{number}" for number in range(1, 6)]
    assert scaler.up("cpu-[1,3,5]", "cpu-[2,4]") == ""
    assert cluster.idle() == sorted(scaler.state()) == ["cpu-1", "cpu-3", "cpu-5"]
    assert scaler.machines() == {"cpu-1", "cpu-3", "cpu-5"}
    told = scaler.outputs()
    assert (told["spec"], told["fleets"]) == (before, {"cpu": "cpu-[1,3,5]"})
    with cluster.slurm() as slurm:
        assert [partition.name for partition in slurm.partitions()] == ["main"]

    cluster.up()
    assert cluster.idle() == ["cpu-1", "cpu-3", "cpu-5", "new-1"]
    assert scaler.outputs()["fleets"] == {"cpu": "cpu-[1,3,5]", "new": "new-1"}
    with cluster.slurm() as slurm:
        assert {partition.name for partition in slurm.partitions()} == {"main", "later"}


def test_one_that_fails_holds_back_no_other(scaler: Scaler) -> None:
    there = scaler.state() - {"new-1"}
    wish = hostlist.fold({*there, "cpu-6", "cpu-7"})
    in_the_way = scaler.cluster.data / scaler.cluster.stack / "machines" / "cpu-6"
    in_the_way.write_text("not a folder")
    said = scaler.up(wish, "cpu-[6-7]")
    in_the_way.unlink()
    assert "cpu-6" in said
    assert "cpu-7" in scaler.cluster.idle()
    assert scaler.state() - {"new-1"} == {*there, "cpu-7"}
    assert scaler.outputs()["fleets"]["cpu"] == wish
    assert scaler.up(wish, "cpu-6") == ""
    assert "cpu-6" in scaler.cluster.idle()


def test_one_that_was_cut_off_is_gone_on_with(scaler: Scaler) -> None:
    there = scaler.state() - {"new-1", "cpu-8"}
    wish, without = hostlist.fold({*there, "cpu-8"}), hostlist.fold(there)
    assert "code: 137" in scaler.up(wish, "cpu-8", kill_at="Node cpu-8 creating")
    stack = scaler.stack()
    assert stack.up({"cpu": HostSet(wish)}, ["cpu-8"]).made == {"cpu-8"}
    assert stack.read().recorded["cpu-8"] == Recorded(True, True, False, stack.read().images["cpu"], "local")
    assert "cpu-8" in scaler.cluster.idle()
    assert "code: 137" in scaler.up(without, "cpu-8", kill_at="Node cpu-8 deleting")
    # A person's is for what the outputs say, which the scaler had no time to change.
    scaler.cluster.up()
    # What another test left, where it ran in this process, is nothing of this one's.
    assert scaler.state() - {"new-1"} == scaler.machines() == {*there, "cpu-8"}
    assert stack.up({"cpu": HostSet(without)}, ["cpu-8"]).removed == {"cpu-8"}
    assert scaler.state() - {"new-1"} == scaler.machines() == there
    assert "cpu-8" not in scaler.cluster.nodes()


def test_what_was_begun_and_is_wished_for_no_more_is_forgotten(scaler: Scaler) -> None:
    there = scaler.state() - {"new-1"}
    wish, without = hostlist.fold({*there, "cpu-4"}), hostlist.fold(there)
    assert "code: 137" in scaler.up(wish, "cpu-4", kill_at="Machine cpu-4 creating")
    stack = scaler.stack()
    assert stack.up({"cpu": HostSet(without)}, ["cpu-4"]) == UpOutcome()
    assert "cpu-4" not in stack.read().recorded
    # If its machine was made, it is one without a record, which the next that is wished for takes.
    assert stack.up({"cpu": HostSet(wish)}, ["cpu-4"]).made == {"cpu-4"}
    assert stack.up({"cpu": HostSet(without)}, ["cpu-4"]).removed == {"cpu-4"}


def test_a_bad_wish_changes_nothing(scaler: Scaler) -> None:
    before = scaler.cluster.idle()
    assert "its max_nodes is 8" in scaler.up("cpu-[1,9]", "cpu-9")
    assert scaler.cluster.idle() == before
