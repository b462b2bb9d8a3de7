"""Options of AWS: each mistake with its key and the remedy, all of them at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.infrastructures.aws.specs import COUPLED, GIVEN, OTHER_ZONE, REGION, RULES, ZONE, mapping, spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.aws.demands import wanted
from tidepool.infrastructures.aws.reading import read_options

FLEET = "fleets[0].infrastructures[0].options"
OWN = "controller.infrastructure.options"


def mistakes_of(described: dict[str, Any], stack: str = "dev") -> dict[str, str]:
    """By path."""
    with pytest.raises(SpecError) as raised:
        read_options(ClusterSpec.model_validate(described), stack)
    return {mistake.path: mistake.message for mistake in raised.value.mistakes}


def test_what_nobody_says_is_what_is_usual() -> None:
    options = read_options(spec(), "dev")
    own, fleet = options.claims
    assert (own.path, own.offering.instance_type, own.fleet) == (f"{OWN}.machines", "m7i.large", None)
    assert (fleet.offering.market, fleet.offering.disk_gib, options.zone_of(fleet.offering)) == (
        "on-demand",
        16,
        ZONE,
    )
    assert (options.place.home, str(options.place.cidr)) == ("efs", "172.30.0.0/16")


@pytest.mark.parametrize(("written", "adapters"), [(False, 0), (True, 1), (4, 4)])
def test_yes_is_one_adapter_and_a_number_is_so_many(written: object, adapters: int) -> None:
    (_, claim) = read_options(spec({"efa": written}), "dev").claims
    assert claim.offering.efa == adapters


def test_disks_are_whole_gibibytes_as_ebs_counts() -> None:
    (_, claim) = read_options(spec({"disk": "20000M"}), "dev").claims
    assert claim.offering.disk_gib == 20


def test_entries_of_a_fleet_are_offerings_in_order_of_preference() -> None:
    described = mapping()
    described["fleets"][0]["infrastructures"] = [
        {"name": "aws", "offering": "spot-a", "options": {"instance_type": "c7i.2xlarge", "market": "spot"}},
        {
            "name": "aws",
            "offering": "spot-b",
            "options": {"instance_type": "c6i.2xlarge", "market": "spot", "zone": OTHER_ZONE},
        },
        {"name": "aws", "options": {"instance_type": "c7i.2xlarge"}, "max_nodes": 2},
    ]
    read = ClusterSpec.model_validate(described)
    options = read_options(read, "dev")
    fleet = read.fleets[0]
    assert [options.of_fleet("cpu", entry).market for entry in fleet.infrastructures] == [
        "spot",
        "spot",
        "on-demand",
    ]
    demands = wanted(read, options).demands[1:]
    assert [(each.zone, each.instance_type, each.machines) for each in demands] == [
        (ZONE, "c7i.2xlarge", 4),
        (OTHER_ZONE, "c6i.2xlarge", 4),
        (ZONE, "c7i.2xlarge", 2),
    ]


def test_what_is_asked_of_a_region_is_every_machine_that_there_can_be() -> None:
    described = mapping(COUPLED, controller={"backup": True, "accounting": {}, "login_machines": 2})
    described["fleets"][0]["shape"]["gres"] = [{"name": "gpu", "count": 2, "files": "/dev/nvidia[0-1]"}]
    read = ClusterSpec.model_validate(described)
    own, accounting, fleet = wanted(read, read_options(read, "dev")).demands
    assert (own.machines, accounting.machines, fleet.machines) == (4, 1, 4)
    assert (own.memory_mib, accounting.memory_mib) == (2048 + 1024, 2048 + 1024)
    assert (fleet.gpus, fleet.efa, fleet.clustered, fleet.memory_mib) == (2, 1, True, 15 * 1024)


@pytest.mark.parametrize(
    ("offering", "key", "words"),
    [
        ({"instance_type": "large"}, "instance_type", "should match pattern"),
        ({"zone": "us-east-1a"}, "zone", f"the place has the zones {ZONE}, {OTHER_ZONE}; add it there"),
        ({"market": "cheap"}, "market", "'on-demand' or 'spot'"),
        (
            {"max_price_usd_per_hour": 1},
            "max_price_usd_per_hour",
            "it is for spot machines; write market: spot",
        ),
        ({"disk": "1GiB"}, "disk", "greater than or equal to 4096"),
        (
            {"first_boot": "x" * 16_384},
            "first_boot",
            "than the 16384 that EC2 takes: put the script into the image",
        ),
        ({"efa": -1}, "efa", "greater than or equal to 0"),
        ({"efa": "all"}, "efa", "valid integer"),
        ({"type": "c7i.large"}, "type", "no such key; known here: "),
    ],
)
def test_a_mistake_in_an_offering_is_told_with_its_key_and_the_remedy(
    offering: dict[str, Any], key: str, words: str
) -> None:
    found = mistakes_of(mapping(offering))
    assert set(found) == {f"{FLEET}.{key}"}
    assert words in found[f"{FLEET}.{key}"]


@pytest.mark.parametrize(
    ("place", "key", "words"),
    [
        ({"region": "frankfurt"}, "region", "should match pattern"),
        ({"zones": []}, "zones", f"it is missing: name the zones to be in, such as [{REGION}a]"),
        ({"zones": [ZONE, "eu-west-1a"]}, "zones[1]", f"it is no zone of the region {REGION}"),
        ({"zones": [ZONE, ZONE]}, "zones[1]", "it stands here twice"),
        ({"cidr": "10.0.0.0/8"}, "cidr", "a prefix of /16 to /24"),
        ({"cidr": "10.77.0.0/20"}, "cidr", "overlaps the cluster's network 10.77.0.0/16"),
        (
            {"administrators": ["192.168.7.0/24"]},
            "transit_gateway",
            "nothing leads from a VPC of the stack's own",
        ),
        ({"administrators": ["10.77.9.0/24"], "transit_gateway": "tgw-0"}, "administrators[0]", "overlaps"),
        ({"home": "nas"}, "home", "write efs, lustre, or an NFS export"),
        ({"home": "nas:/home"}, "home", "nothing leads from a VPC of the stack's own to a file server"),
        ({"lustre": {"storage_gib": 1200}}, "lustre", "write home: lustre, or leave it out"),
        ({"home": "lustre", "lustre": {"storage_gib": 3000}}, "lustre.storage_gib", "multiple of 2400: 4800"),
        ({"kms_key": "alias/mine"}, "kms_key", "should match pattern"),
        ({"given": GIVEN, "outside": True}, "outside", "it is of a VPC of the stack's own"),
        ({"outside": True}, "outside", "no rule lets machines use it"),
        ({"firewall": RULES}, "outside", "to 198.51.100.7/32 of the firewall's egress; write outside: true"),
        (
            {"firewall": {"logins": {"ingress": [{"from": ["198.51.100.0/24"]}]}}},
            "transit_gateway",
            "nothing leads from those of firewall.logins.ingress",
        ),
        ({"given": {**GIVEN, "subnets": {}}}, "given.subnets", "at least 1 item"),
        (
            {"machines": {"instance_type": "m7i.large", "market": "spot"}},
            "machines.market",
            "take the controller back",
        ),
        ({"machines": {"instance_type": "m7i.large", "efa": True}}, "machines.efa", "it is for nodes"),
    ],
)
def test_a_mistake_in_the_place_is_told_with_its_key_and_the_remedy(
    place: dict[str, Any], key: str, words: str
) -> None:
    found = mistakes_of(mapping(**place))
    assert words in found[f"{OWN}.{key}"], found


def test_who_comes_from_anywhere_by_the_transit_gateway_has_no_way_back_by_a_nat_gateway() -> None:
    rules = {
        "logins": {"ingress": [{"from": ["198.51.100.0/24"]}, {"from": ["192.0.2.7", "0.0.0.0/0"]}]},
        "nodes": {"egress": [{"to": ["0.0.0.0/0"]}]},
    }
    found = mistakes_of(mapping(outside=True, transit_gateway="tgw-0", firewall=rules))
    assert set(found) == {"firewall.logins.ingress[1].from[1]"}
    assert "name the networks that come by it" in found["firewall.logins.ingress[1].from[1]"]
    read_options(
        ClusterSpec.model_validate(mapping(transit_gateway="tgw-0", firewall={"logins": rules["logins"]})),
        "dev",
    )


def test_a_placement_group_over_two_zones_is_told_with_both() -> None:
    described = mapping(COUPLED)
    second = {**described["fleets"][0], "name": "more", "subnet": "10.77.11.0/24"}
    options = {"instance_type": "hpc7a.96xlarge", "placement_group": "mpi", "zone": OTHER_ZONE}
    second["infrastructures"] = [{"name": "aws", "options": options}]
    described["fleets"].append(second)
    (path, words), *others = mistakes_of(described).items()
    assert not others
    assert path == "fleets[1].infrastructures[0].options.placement_group"
    assert f"in {OTHER_ZONE} here, and in {ZONE} by {FLEET}" in words
    # Two groups, or one zone, are right.
    options["placement_group"] = "other"
    read_options(ClusterSpec.model_validate(described), "dev")


def test_all_mistakes_are_told_at_once() -> None:
    described = mapping({"market": "cheap", "disk": "1GiB"}, home="nas", state_gib=0)
    assert set(mistakes_of(described)) == {
        f"{FLEET}.market",
        f"{FLEET}.disk",
        f"{OWN}.home",
        f"{OWN}.state_gib",
    }


def test_a_name_that_iam_does_not_take_is_told_before() -> None:
    found = mistakes_of(mapping(), stack="s" * 60)
    assert "IAM knows the role" in found["name"]


def test_a_fleets_role_has_the_name_of_its_offering_too() -> None:
    described = mapping()
    (entry,) = described["fleets"][0]["infrastructures"]
    entry["offering"] = "o" * 32
    # tidepool-STACK-cpu.OFFERING
    fits = "s" * (64 - len("tidepool--cpu.") - 32)
    read_options(ClusterSpec.model_validate(described), fits)
    longer = f"{fits}s"
    assert mistakes_of(described, stack=longer)["name"] == (
        f"IAM knows the role tidepool-{longer}-cpu.{'o' * 32}, which has 65 letters, by 64 at most: give the stack, the fleet or "
        "its offering a shorter name"
    )


def test_a_fleet_that_is_elsewhere_has_no_role() -> None:
    described = mapping()
    own = {"name": "f" * 56, "subnet": "10.77.11.0/24", "infrastructures": [{"name": "libvirt"}]}
    described["fleets"].append({**described["fleets"][0], **own})
    read_options(ClusterSpec.model_validate(described), "dev")


def test_a_cluster_may_have_fleets_alone_at_aws() -> None:
    described = mapping()
    described["infrastructures"] = {"aws": described["controller"]["infrastructure"]["options"]}
    described["controller"] = {}
    options = read_options(ClusterSpec.model_validate(described), "dev")
    assert [claim.path for claim in options.claims] == [FLEET]
    described["infrastructures"]["aws"] = {"zones": [ZONE]}
    assert mistakes_of(described) == {"infrastructures.aws.region": "missing. The region: `eu-central-1`."}


def test_the_page_has_every_option_and_an_example_that_is_read() -> None:
    page = (Path(__file__).parents[3] / "docs/infrastructures/aws.md").read_text()
    from tidepool.infrastructures.aws.options import GivenNetwork, Lustre, Offering, SiteOptions

    for part in (Offering, SiteOptions, GivenNetwork, Lustre):
        for name, field in part.model_fields.items():
            assert f"`{field.validation_alias or name}`" in page, name
    example = page.partition("```yaml\nconfig:")[2].partition("```")[0]
    read = yaml.safe_load(f"config:{example}")["config"]["cluster:spec"]
    read_options(ClusterSpec.model_validate(read), "physics")
