"""What a cluster on AWS registers as a whole: names, order, tags, secrets, and what mistakes come to."""

from __future__ import annotations

import pulumi
import pytest
from pulumi.output import Unknown

from tests.components.stack import answers
from tests.infrastructures.aws.graph import (
    ACCESS,
    CONTROLLER,
    FLEET,
    INSTANCE,
    MACHINE,
    OBJECT,
    POLICY,
    PROFILE,
    PROVIDER,
    REGION,
    ROLE,
    ROUTE,
    SECRET,
    SUBNET,
    TEMPLATE,
    VERSION,
    VPC,
    of_aws,
    registered,
)
from tests.infrastructures.aws.specs import COUPLED, GIVEN, RULES, ZONE, mapping, spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.registry import infrastructures_of
from tidepool.testing import register


def test_all_that_is_made_for_a_node() -> None:
    graph = registered(spec())
    mine = {name: each.parent for name, each in graph.resources.items() if each.name == "cpu-1"}
    assert mine == {
        f"{INSTANCE} cpu-1": FLEET,
        f"{ROUTE} cpu-1": FLEET,
        f"{MACHINE} cpu-1": FLEET,
        "tidepool:slurm:Node cpu-1": FLEET,
    }
    kind = {name: each.parent for name, each in of_aws(graph).items() if each.name == "cpu"}
    assert kind == dict.fromkeys(
        [f"{type} cpu" for type in (SECRET, VERSION, ROLE, POLICY, PROFILE, TEMPLATE)], FLEET
    )
    # The cluster's own machines are made alike.
    assert {f"{INSTANCE} ctl", f"{INSTANCE} login-1"} <= set(graph.resources)
    assert graph[f"{TEMPLATE} ctl"].parent == graph[f"{TEMPLATE} login"].parent == CONTROLLER


def test_urns_are_what_they_were() -> None:
    """Another name or type here is a new machine for everybody who has one: give it an alias."""
    graph = registered(spec())
    above = "urn:pulumi:dev::cluster::tidepool:components:ComputeFleet"
    assert graph[f"{INSTANCE} cpu-1"].urn == f"{above}${INSTANCE}::cpu-1"
    assert graph[f"{TEMPLATE} cpu"].urn == f"{above}${TEMPLATE}::cpu"
    assert graph[f"{VPC} vpc"].urn == f"urn:pulumi:dev::cluster::{VPC}::vpc"
    assert graph[f"{SUBNET} {ZONE}"].urn == f"urn:pulumi:dev::cluster::{SUBNET}::{ZONE}"


def test_nothing_is_made_before_the_region_is_known_to_have_what_is_asked_of_it() -> None:
    graph = registered(spec({"market": "spot"}))
    assert graph[f"{PROVIDER} aws"].depends_on == {f"{REGION} aws"}
    assert {each.provider for each in of_aws(graph).values()} == {f"{PROVIDER} aws"}
    assert graph[f"{REGION} aws"].inputs["demands"]["demands"] == [
        {
            "path": "controller.infrastructure.options.machines",
            "instanceType": "m7i.large",
            "zone": ZONE,
            "market": "on-demand",
            "machines": 2,
            "cpus": 2,
            "threadsPerCore": 1,
            "memoryMib": 3072,
        },
        {
            "path": "fleets[0].infrastructures[0].options",
            "instanceType": "c7i.2xlarge",
            "zone": ZONE,
            "market": "spot",
            "machines": 4,
            "cpus": 8,
            "threadsPerCore": 2,
            "memoryMib": 15360,
        },
    ]


def test_all_of_a_stack_has_its_tag() -> None:
    for graph in (
        registered(spec(COUPLED, outside=True, firewall=RULES)),
        registered(spec(home="lustre", given=GIVEN)),
    ):
        for name, each in of_aws(graph).items():
            if "tags" in each.inputs:
                assert each.inputs["tags"]["tidepool:stack"] == "dev", name
        tagless = {
            each.type.rpartition(":")[2] for each in of_aws(graph).values() if "tags" not in each.inputs
        }
        # These have none at AWS: they go with what they are of.
        assert tagless <= {
            *("Route", "RouteTableAssociation", "RolePolicy", "SecretVersion", "MountTarget"),
            *("VolumeAttachment", "BucketPublicAccessBlock", "BucketPolicy"),
        }


def test_a_preview_of_nothing_yet_shows_all_of_it() -> None:
    graph = registered(spec(), preview=True)
    assert set(graph.resources) == set(registered(spec()).resources)
    # The image is not written yet, and no engine may look for it.
    assert isinstance(graph[f"{OBJECT} debian-12-cloud"].inputs["source"], Unknown)


def test_mistakes_in_options_end_the_program_with_all_of_them_and_register_nothing() -> None:
    with pytest.raises(pulumi.RunError) as raised:
        infrastructures_of(spec({"market": "cheap"}, home="here"), "dev")
    assert "2 mistakes" in str(raised.value)
    assert "controller.infrastructure.options.home = 'here'" in str(raised.value)
    assert "fleets[0].infrastructures[0].options.market = 'cheap'" in str(raised.value)


def test_machines_of_two_infrastructures_are_reached_by_one_key() -> None:
    """A cluster at AWS, with a fleet of the department's own hosts."""
    pytest.importorskip("pulumi_libvirt", reason="pulumi-libvirt is not installed: scripts/setup installs it")
    described = mapping()
    described["infrastructures"] = {"libvirt": {"volumes": {"home": "nas:/export/home"}}}
    own = {"name": "own", "subnet": "10.77.11.0/24", "infrastructures": [{"name": "libvirt"}]}
    described["fleets"].append({**described["fleets"][0], **own})
    both = ClusterSpec.model_validate(described)
    found: list[str] = []

    def program() -> None:
        found.extend(infrastructures_of(both, "dev"))

    graph = register(program, answers)
    assert found == ["aws", "libvirt"]
    assert set(graph.of_type("tidepool:keys:SshKey")) == {"ssh@administrator", "ssh@machines"}
    assert (
        graph[f"{ACCESS} ssh@machines"].inputs["addresses"]
        == "10.77.0.[2-4,16],10.77.10.[1-4],10.77.11.[1-4]"
    )
