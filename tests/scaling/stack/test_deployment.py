"""What a stack's state says of nodes, and which URNs they have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.specs import spec_mapping, with_fleet
from tests.scaling.journal.values import SPEC
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.engine.deployment.options import Targets
from tidepool.scaling.cluster_state import Recorded, RecordedRole
from tidepool.scaling.ports import NotUp, StackError
from tidepool.scaling.stack.deployment import read_deployment, stack_outputs, urns_of

FLEET = "urn:pulumi:dev::cluster::tidepool:components:ComputeFleet::cpu"
PLACE = "urn:pulumi:dev::cluster::tidepool:components:ComputeFleet$"
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:x"}
OUTPUTS = {
    "cluster": "physics",
    "controller": {"kind": "local", "stack": "dev", "machine": "ctl"},
    "fleets": {"cpu": "cpu-[1-2]"},
    "sshKey": SECRET,
    "spec": SPEC.model_dump(mode="json"),
}


def resource(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"urn": f"{PLACE}{kind}::{name}", "type": kind, "parent": FLEET, "custom": True, **more}


def machine(name: str, **more: Any) -> dict[str, Any]:
    return resource("tidepool:local:Machine", name, inputs={"image": "sha"}, **more)


def node(name: str, **more: Any) -> dict[str, Any]:
    return resource("tidepool:slurm:Node", name, **more)


def document(*resources: dict[str, Any], pending: Any = (), outputs: Any = OUTPUTS) -> dict[str, Any]:
    others = [
        {"urn": "urn:pulumi:dev::cluster::pulumi:pulumi:Stack::cluster-dev", "outputs": outputs},
        {"urn": FLEET, "type": "tidepool:components:ComputeFleet"},
        {
            "urn": "urn:pulumi:dev::cluster::tidepool:components:SlurmController$tidepool:local:Machine::login-1",
            "parent": "urn:pulumi:dev::cluster::tidepool:components:SlurmController::physics",
        },
        resource("tidepool:local:Boot", "cpu"),
        resource("tidepool:slurm:Slots", "cpu"),
        {
            "urn": "urn:pulumi:dev::cluster::tidepool:components:GoldenImage$tidepool:image:Image::debian-12",
            "outputs": {"digest": "abc"},
        },
    ]
    return {
        "version": 3,
        "deployment": {"resources": [*others, *resources], "pending_operations": list(pending)},
    }


def test_nodes_are_told_by_their_machine_and_their_membership() -> None:
    found = read_deployment(document(machine("cpu-1"), node("cpu-1"), machine("cpu-2")))
    assert found.recorded == {
        "cpu-1": Recorded(machine=True, membership=True, image="sha", infrastructure="local"),
        "cpu-2": Recorded(machine=True, image="sha", infrastructure="local"),
    }


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("aws:ec2/instance:Instance", {"id": "i-0c1d"}),
        ("libvirt:index/domain:Domain", {"id": "i-0c1d"}),
        ("tidepool:nomad:Machine", {"id": "i-0c1d"}),
        ("tidepool:ssh:Host", {"id": "dev/cpu-1", "outputs": {"machine": "i-0c1d"}}),
    ],
)
def test_a_machine_is_recorded_with_its_infrastructures_own_id(kind: str, values: Any) -> None:
    found = read_deployment(document(resource(kind, "cpu-1", **values), node("cpu-1")))
    assert found.recorded["cpu-1"].machine_id == "i-0c1d"


@pytest.mark.parametrize(
    "resources",
    [
        {"pending": [{"type": "creating", "resource": machine("cpu-3")}]},
        {"more": [machine("cpu-3", delete=True)]},
        {"more": [machine("cpu-3"), node("cpu-3", initErrors=["not up"])]},
    ],
)
def test_what_was_cut_off_is_pending(resources: dict[str, Any]) -> None:
    found = read_deployment(document(*resources.get("more", ()), pending=resources.get("pending", ())))
    assert found.recorded["cpu-3"].pending


def test_what_the_scaler_is_told() -> None:
    at = stack_outputs(read_deployment(document()), "7", lambda: pytest.fail("the outputs have the spec"))
    assert (at.version, at.spec, at.fleets) == ("7", SPEC, {"cpu": HostSet("cpu-[1-2]")})
    assert at.controller == OUTPUTS["controller"]
    assert at.images == {"cpu": "abc"}


def test_without_a_spec_in_the_outputs_the_files_is_taken() -> None:
    outputs = {key: value for key, value in OUTPUTS.items() if key != "spec"}
    assert stack_outputs(read_deployment(document(outputs=outputs)), "", lambda: SPEC).spec is SPEC
    # One that is secret cannot be read without the key.
    secret = {**outputs, "spec": SECRET}
    assert stack_outputs(read_deployment(document(outputs=secret)), "", lambda: SPEC).spec is SPEC


def test_no_outputs_are_no_cluster() -> None:
    with pytest.raises(NotUp):
        stack_outputs(read_deployment(document(outputs={})), "", lambda: SPEC)
    with pytest.raises(NotUp):
        stack_outputs(read_deployment({"version": 3, "deployment": None}), "", lambda: SPEC)


@pytest.mark.parametrize("wrong", [{}, {"deployment": {"resources": [{}]}}, {"deployment": {"resources": 3}}])
def test_another_form_is_an_error_and_no_empty_state(wrong: Any) -> None:
    with pytest.raises(StackError):
        read_deployment(wrong)


def test_urns_that_nodes_will_have_are_those_that_they_have() -> None:
    found = read_deployment(document(machine("cpu-1"), node("cpu-1")))
    assert found.urns["cpu-1"] == urns_of("dev", "cluster", SPEC, "cpu-1")
    for unknown in ("gpu-1", "login-1", "ctl"):
        with pytest.raises(StackError, match=unknown):
            urns_of("dev", "cluster", SPEC, unknown)


def test_a_node_of_several_infrastructures_has_its_place_by_its_machine_and_the_outputs() -> None:
    spec = spec_mapping(partitions=[{"name": "main"}])
    spec["fleets"] = spec["fleets"][:1]
    spot = {"name": "aws", "offering": "spot"}
    spec["fleets"][0]["infrastructures"] = ["local", "aws", spot]
    outputs = {**OUTPUTS, "spec": spec, "places": {"cpu": {"aws/spot": "cpu-[1-2]", "local": "cpu-3"}}}
    instances = [resource("aws:ec2/instance:Instance", f"cpu-{number}") for number in (1, 4)]
    at = stack_outputs(
        read_deployment(document(*instances, machine("cpu-2"), outputs=outputs)), "", lambda: SPEC
    )
    assert {name: record.location for name, record in at.recorded.items()} == {
        "cpu-1": "aws/spot",
        "cpu-2": "local",
        "cpu-4": "aws",
    }, "what is recorded goes before what was told"
    made = urns_of("dev", "cluster", at.spec, "cpu-4", "local")
    assert made[0] == f"{PLACE}tidepool:local:Machine::cpu-4"
    assert made[-1] == f"{PLACE}tidepool:slurm:Node::cpu-4"
    # Of AWS a machine with several interfaces has more resources than one.
    meant = Targets(urns_of("dev", "cluster", at.spec, "cpu-4", "aws/spot"))
    for kind in ("aws:ec2/instance:Instance", "tidepool:aws:Forwarding", "tidepool:slurm:Node"):
        assert f"{PLACE}{kind}::cpu-4" in meant


def test_resources_that_depend_on_options_are_told_by_a_pattern() -> None:
    spec = ClusterSpec.model_validate(with_fleet(1, infrastructures=["kubernetes"]))
    assert urns_of("dev", "cluster", spec, "gpu-1") == (f"{PLACE}**::gpu-1",)
    meant = Targets((f"{PLACE}**::gpu-1",))
    assert f"{PLACE}kubernetes:core/v1:Pod::gpu-1" in meant
    assert f"{PLACE}kubernetes:core/v1:Pod::gpu-11" not in meant


POOL = "urn:pulumi:dev::cluster::tidepool:components:ConvergedNodePool::shared"


def of_pool(kind: str, name: str, **more: Any) -> dict[str, Any]:
    urn = f"urn:pulumi:dev::cluster::tidepool:components:ConvergedNodePool${kind}::{name}"
    return {"urn": urn, "type": kind, "parent": POOL, "custom": True, **more}


def role(name: str, role: str, **more: Any) -> dict[str, Any]:
    return of_pool("tidepool:pool:Role", name, inputs={"role": "slurm"}, outputs={"role": role}, **more)


def test_machines_of_pools_are_told_with_the_role_that_they_have() -> None:
    found = read_deployment(
        document(
            of_pool("tidepool:local:Machine", "shared-1"),
            role("shared-1", "kubernetes"),
            of_pool("tidepool:local:Machine", "shared-2"),
            role("shared-2", "slurm", initErrors=["it serves neither"]),
            of_pool("tidepool:local:Machine", "shared-3"),
            role("shared-3", "slurm"),
            of_pool("tidepool:local:Machine", "shared-4"),
            of_pool("tidepool:local:Boot", "shared"),
            of_pool("tidepool:local:Boot", "shared-slurm"),
            pending=[{"type": "updating", "resource": role("shared-3", "slurm")}],
        )
    )
    assert found.roles == {
        "shared-1": RecordedRole("kubernetes", machine=True),
        "shared-2": RecordedRole("slurm", machine=True, pending=True),
        "shared-3": RecordedRole("slurm", machine=True, pending=True),
        "shared-4": RecordedRole(machine=True),
    }
    assert not found.recorded, "they are no fleet's"
    assert found.role_urns["shared-1"].endswith("$tidepool:pool:Role::shared-1")
    assert stack_outputs(found, "1", lambda: SPEC).roles == found.roles


def test_the_way_to_kubernetes_is_told() -> None:
    outputs = {**OUTPUTS, "kubernetes": {"access": "admin", "server": "https://10.77.0.9:6443"}}
    assert (
        stack_outputs(read_deployment(document(outputs=outputs)), "1", lambda: SPEC).kubernetes
        == outputs["kubernetes"]
    )
    assert stack_outputs(read_deployment(document()), "1", lambda: SPEC).kubernetes == {}


def test_a_machine_that_is_suspended_is_told_with_the_image_that_it_was_made_from() -> None:
    disk = resource(
        "libvirt:index/volume:Volume",
        "cpu-1",
        inputs={"baseVolumeName": "debian-12-vm-0123456789abcdef.qcow2"},
    )
    domain = resource("libvirt:index/domain:Domain", "cpu-1", id="uuid-1", inputs={})
    kept = node("cpu-1", inputs={"power": "suspended"})
    outputs = {**OUTPUTS, "suspended": {"cpu": "cpu-1"}}
    deployment = read_deployment(document(disk, domain, kept, outputs=outputs))
    assert deployment.recorded["cpu-1"] == Recorded(
        machine=True,
        membership=True,
        image="0123456789abcdef",
        infrastructure="libvirt",
        machine_id="uuid-1",
        is_suspended=True,
    )
    assert stack_outputs(deployment, "1", lambda: SPEC).suspended == {"cpu": HostSet("cpu-1")}
