"""What a CloudStack lacks of a spec: found before anything is made, all at once, each with the remedy; over the stand-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cs.client import CloudStack

from tests.infrastructures.cloudstack.cloud import Cloud
from tests.infrastructures.cloudstack.server import KEY, served
from tests.infrastructures.cloudstack.specs import spec
from tests.infrastructures.cloudstack.state import Host
from tests.infrastructures.cloudstack_world import client
from tidepool.cluster.failures import unmarked
from tidepool.infrastructures.cloudstack.api import Api
from tidepool.infrastructures.cloudstack.demands import demands
from tidepool.infrastructures.cloudstack.preflight import checks_of, lacks_there
from tidepool.infrastructures.cloudstack.reading import read_options


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def found(cloud: Cloud) -> Iterator[Callable[..., list[str]]]:
    with served(cloud) as endpoint:

        def find(offering: dict[str, Any] | None = None, /, **place: Any) -> list[str]:
            asked = spec(offering, **place)
            options = read_options(asked)

            def open(location: Any) -> Api:
                return replace(
                    client(endpoint), project=location.project or "", account=location.account or ""
                )

            return [*lacks_there(demands(asked, "dev", options), open)]

        yield find


Found = Callable[..., list[str]]


def test_nothing_is_lacking_where_all_is_there(cloud: Cloud, found: Found) -> None:
    assert found() == []
    assert found(project="physics") == []
    cloud.denied.add("listHosts")
    assert found() == []
    assert not {each for each in cloud.requests if not each.startswith("list")}


def test_all_that_is_missing_is_told_at_once(cloud: Cloud, found: Found) -> None:
    cloud.zone["allocationstate"] = "Disabled"
    cloud.capabilities |= {"cloudstackversion": "4.17.2.0", "allowuserexpungerecovervm": False}
    cloud.limits |= {"user_vm": 2}
    cloud.hosts = [Host("kvm-1", cpus=2, memory_mib=2048)]
    said = found(network_offering="none such", os_type="Plan 9")
    for each in (
        "CloudStack is 4.17.2.0, and user data has names since 4.18",
        "allow.user.expunge.recover.vm",
        "options.zone: zone-1 is Disabled",
        "options.network_offering: there is no none such",
        "options.os_type: CloudStack knows no Plan 9",
        "a machine has 4 processors and 3328 MiB, and no host is so large: they have at most 2 and 2048 MiB",
        "the quota leaves 2 VMs, and 3 more are asked for at least",
        "zone-1 has 2048 MiB of memory left, and 4864 MiB more are asked for",
    ):
        assert any(each in lack for lack in said), (each, said)
    causes = [unmarked(lack)[1] for lack in said]
    assert causes.count("capacity") == 2


@pytest.mark.parametrize(
    ("offering", "said"),
    [
        ({"service_offering": "none"}, "there is none of this name"),
        ({"service_offering": "small"}, "it has 1 processors, and a machine needs 4"),
        ({"details": {"numa": "2"}}, "no service offering fits 4 processors and 3328 MiB, of custom, large, small"),
        ({"service_offering": "large", "host_tags": ["gpu"]}, "it does not ask for hosts with the tag gpu"),
        ({"affinity": "host anti-affinity"}, "affinity: 3 machines are to be on hosts of their own, and there are 2"),
    ],
)  # fmt: skip
def test_offerings_that_cannot_be_are_told_with_why(
    found: Found, offering: dict[str, Any], said: str
) -> None:
    (lack,) = found(offering, fleet={"min_nodes": 3})
    assert lack.startswith("fleets[0].infrastructures[0].options")
    assert said in lack


def test_offerings_that_are_made_need_not_be_there(cloud: Cloud, found: Found) -> None:
    cloud.service_offerings.clear()
    assert len(found()) == 2
    assert found(make_offerings=True) == []
    (lack,) = found({"details": {"pciDevice": "GPUs", "vgpuType": "passthrough"}}, make_offerings=True)
    assert "details: pciDevice and vgpuType make no service offering for hosts with KVM" in lack


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"arch": "aarch64"}, "debian is for aarch64, and machines are x86_64"),
        ({"hypervisor": "VMware"}, "debian is for VMware"),
        ({"isready": False, "status": "43% Downloaded"}, "debian is not ready: 43% Downloaded"),
        ({"zoneid": "another"}, "there is no template debian in the zone zone-1"),
    ],
)
def test_templates_that_machines_cannot_boot_from_are_told(
    cloud: Cloud, found: Found, change: dict[str, Any], said: str
) -> None:
    template = {"id": "t", "name": "debian", "isready": True, "hypervisor": "KVM", "zoneid": cloud.zone["id"]}
    cloud.templates["t"] = template
    assert found(template="debian") == []
    template |= change
    (lack,) = found(template="debian")
    assert said in lack


@pytest.mark.parametrize(
    ("cidr", "tier", "said"),
    [
        (
            "10.77.0.0/20",
            "",
            "10.77.0.0/16 is not within 10.77.0.0/20 of the VPC science, which is too small",
        ),
        ("10.0.0.0/8", "10.77.3.0/24", "the tier other of the VPC science has 10.77.3.0/24 of 10.77.0.0/16"),
        ("10.0.0.0/8", "", ""),
    ],
)
def test_a_network_is_a_free_part_of_its_vpc(
    cloud: Cloud, found: Found, cidr: str, tier: str, said: str
) -> None:
    cloud.vpcs.append({"id": "v", "name": "science", "cidr": cidr})
    if tier:
        cloud.networks["o"] = {"id": "o", "name": "other", "cidr": tier, "vpcid": "v", "tags": []}
    lacks = found(vpc="science")
    assert len(lacks) == bool(said)
    assert said in "".join(lacks)


def test_a_vpc_that_is_not_there_and_an_offering_that_is_not_for_it(found: Found) -> None:
    offering = "DefaultIsolatedNetworkOfferingWithSourceNatService"
    first, second = found(vpc="science", network_offering=offering)
    assert "is not for VPCs; take one of DefaultIsolatedNetworkOfferingForVpcNetworks" in first
    assert "there is no VPC science; there are none" in second


def test_a_network_that_lets_everything_out_is_refused(cloud: Cloud, found: Found) -> None:
    cloud.network_offerings[0]["egressdefaultpolicy"] = True
    (lack,) = found()
    assert "machines reach everything outside" in lack


def test_a_stack_whose_network_is_too_small_by_now_is_told(cloud: Cloud, found: Found) -> None:
    cloud.networks["n"] = {"id": "n", "name": "tidepool-dev", "cidr": "10.77.0.0/24", "tags": []}
    (lack,) = found()
    assert "tidepool-dev is there with 10.77.0.0/24, which is too small for 10.77.0.0/16" in lack


def test_what_a_stack_has_already_is_not_asked_for_again(cloud: Cloud, found: Found) -> None:
    cloud.limits["user_vm"] = 3
    assert found() == []
    for number in range(3):
        vm = {"id": str(number), "name": f"n{number}", "group": "tidepool-dev", "state": "Running"}
        cloud.vms[str(number)] = {**vm, "cpunumber": 1, "memory": 1, "nic": [{}], "tags": []}
    assert found() == []


def test_volumes_and_storage_are_counted_with_the_root_disks(cloud: Cloud, found: Found) -> None:
    """Three machines of 16 GiB each, and a file server with its own and 200 GiB besides."""
    served: dict[str, Any] = {"volumes": {}, "file_server": {}, "store": {"size": "200GiB"}}
    cloud.limits |= {"volume": 4, "primary_storage": 263}
    cloud.storage_gib = 200
    said = found(**served)
    for each in (
        "the quota leaves 4 volumes, and 5 more are asked for at least",
        "the quota leaves 263 GiB of primary storage, and 264 more are asked for at least",
        "zone-1 has 200 GiB of primary storage left, and 264 GiB more are asked for at least",
    ):
        assert any(each in lack for lack in said), (each, said)
    assert {unmarked(lack)[1] for lack in said} == {"capacity"}
    cloud.denied.add("listCapacity")
    assert len(found(**served)) == 2
    cloud.limits |= {"volume": 5, "primary_storage": 264}
    assert found(**served) == []


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ({"size": "8GiB", "disk_offering": "Large"}, "store.disk_offering: there is no disk offering Large; there are Custom, Small"),
        ({"size": "8GiB", "disk_offering": "Small"}, "store.disk_offering: volumes of Small have 5 GiB, and controller.infrastructure.options.store.size is 8"),
        ({"size": "5GiB", "disk_offering": "Small"}, ""),
    ],
)  # fmt: skip
def test_a_store_is_of_a_disk_offering_that_is_there(found: Found, store: dict[str, Any], said: str) -> None:
    lacks = found(volumes={}, file_server={}, store=store)
    assert len(lacks) == bool(said)
    assert said in "".join(lacks)


def test_root_disks_are_as_large_as_offering_and_template_let_them(cloud: Cloud, found: Found) -> None:
    next(each for each in cloud.service_offerings if each["name"] == "large")["rootdisksize"] = 8
    (lack,) = found()
    assert "options.disk: it is 16 GiB, and machines of large have 8 GiB: write 8GiB" in lack
    assert found({"disk": "8GiB"}) == []
    template = {"id": "t", "name": "debian", "isready": True, "hypervisor": "KVM", "zoneid": cloud.zone["id"]}
    cloud.templates["t"] = {**template, "size": 10 * 1024**3 + 1}
    (lack,) = found({"disk": "8GiB"}, template="debian")
    assert lack == (
        "fleets[0].infrastructures[0].options.disk: it is 8 GiB, and the template debian has 11 GiB; write disk: 11GiB"
    )


def test_a_zone_whose_hosts_have_memory_but_none_enough_is_told(cloud: Cloud, found: Found) -> None:
    """16 GiB in all, of which no host has room for two machines of 5056 MiB."""
    cloud.hosts = [Host(f"kvm-{number}", memory_mib=8192) for number in (1, 2)]
    fleet = {"min_nodes": 2, "shape": {"cpus": 4, "memory": "4800MiB"}}
    assert found(fleet=fleet) == []
    (lack,) = found(controller={"login_machines": 0}, fleet={**fleet, "min_nodes": 3})
    text, cause = unmarked(lack)
    assert text.startswith(
        "fleets[0].infrastructures[0].options: 3 machines of 5056 MiB are asked for at least, and hosts have room for 2"
    )
    assert cause == "capacity"


def test_hosts_of_another_architecture_are_none(cloud: Cloud, found: Found) -> None:
    cloud.hosts = [Host("arm", arch="aarch64")]
    (lack,) = found()
    assert "has no x86_64 host that is up and enabled, but aarch64" in lack


def test_wrong_keys_and_a_wrong_address_are_told_with_what_to_check(cloud: Cloud) -> None:
    asked = spec()
    with served(cloud) as endpoint:
        wrong = Api(CloudStack(endpoint, KEY, "wrong", method="post"))
        (finding,) = checks_of(asked, "dev", Path(), lambda _: wrong)
    assert finding.state == "lacks"
    assert "with 401: unable to verify user credentials" in finding.detail
    assert "check CLOUDSTACK_KEY and CLOUDSTACK_SECRET" in finding.detail
    (finding,) = checks_of(asked, "dev", Path(), lambda _: client("http://127.0.0.1:9/client/api"))
    assert "is the endpoint right?" in finding.detail


def test_a_zone_a_project_or_an_account_that_is_not_there_is_told(found: Found) -> None:
    assert "there is no zone zone-9 that these keys may see; there are zone-1" in found(zone="zone-9")[0]
    assert "there is no project art" in found(project="art")[0]
