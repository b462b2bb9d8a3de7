"""What machines are made of, by the provider's kinds over the stand-in: made once, seen when it is otherwise, gone when it goes."""

from __future__ import annotations

import base64
import gzip
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.infrastructures.cloudstack.cloud import Cloud
from tests.infrastructures.cloudstack.server import served
from tests.infrastructures.cloudstack_world import client
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.cloudstack import kinds
from tidepool.infrastructures.cloudstack.api import NotAllowed, NotThere
from tidepool.infrastructures.cloudstack.machine import find
from tidepool.infrastructures.cloudstack.network import CloudStackNetworkKind, CloudStackPortForwardingKind
from tidepool.resources.kind import AS_KNOWN, Home, Refusal, Task, Unfinished
from tidepool.resources.reading import read

pytestmark = [
    pytest.mark.runs("cloudstack", versions.installed("cs"), "a stand-in of the tests' for CloudStack")
]

NETWORK = {
    "zone": "zone-1",
    "cidr": "10.77.0.0/16",
    "offering": "DefaultIsolatedNetworkOfferingWithSourceNatService",
}
LICENCES = {
    "protocol": "tcp",
    "sources": ["10.77.10.0/24"],
    "to": ["192.0.2.7/32"],
    "first": 27000,
    "last": 27010,
}
EVERYWHERE = {"protocol": "udp", "sources": ["10.77.0.9/32"], "to": ["0.0.0.0/0"]}
TEMPLATE = {
    "zone": "zone-1",
    "name": "tidepool-dev-debian",
    "url": "http://images/debian.qcow2",
    "hypervisor": "KVM",
}
OS_TYPE = "Debian GNU/Linux 12 (64-bit)"


class Stack:
    """A stack whose resources are in ``cloud``."""

    def __init__(self, cloud: Cloud, endpoint: str) -> None:
        self.cloud, self.api = cloud, client(endpoint)
        self.endpoint = endpoint

    def kind(self, kind: Any) -> Any:
        return kind(Home(Path(), Path()), open=lambda _: self.api, sleep=lambda _: None)

    def model(self, kind: Any, inputs: dict[str, Any]) -> Any:
        found = read(kind.resource.model, {"api": {"endpoint": self.endpoint}, "stack": "dev", **inputs})
        assert not found.mistakes, found.mistakes
        return found.value

    def make(self, kind: Any, timeout_s: Any = 30, /, **inputs: Any) -> str:
        return str(self.kind(kind).create(self.model(kind, inputs), task(timeout_s)).id)

    def update(self, kind: Any, id: str, /, **inputs: Any) -> None:
        wanted = self.model(kind, inputs)
        self.kind(kind).update(id, wanted, wanted, task())

    def look(self, kind: Any, id: str, /, **inputs: Any) -> Any:
        return self.kind(kind).look(id, self.model(kind, inputs))

    def delete(self, kind: Any, id: str, /, **inputs: Any) -> None:
        for _ in range(2):
            self.kind(kind).delete(id, self.model(kind, inputs), task())

    def machine(self, **more: Any) -> dict[str, Any]:
        """The inputs of a machine, all of whose parts are there."""
        boot = self.make(kinds.CloudStackUserDataKind, boot="cpu", content="#cloud-config")
        return {
            "zone": "zone-1",
            "machine": "cpu-1",
            "address": "10.77.10.1",
            "network": self.make(CloudStackNetworkKind, **NETWORK),
            "template": next(iter(self.cloud.templates), "") or self.template(),
            "offering": self.make(kinds.CloudStackServiceOfferingKind, cpus=4, memoryMib=4096),
            "boot": boot,
            "cpus": 4,
            "memoryMib": 4096,
            "diskGib": 16,
            **more,
        }

    def template(self) -> str:
        self.cloud.images["http://images/any.qcow2"] = ""
        said = self.api.call(
            "registerTemplate", name="any", url="http://images/any.qcow2", format="QCOW2", hypervisor="KVM"
        )
        return str(said["template"][0]["id"])


def task(timeout_s: float = 30) -> Task:
    say = lambda _: None  # noqa: E731
    return Task("urn::it", timeout_s, time.monotonic() + timeout_s, say, say, say)


@pytest.fixture
def stack() -> Iterator[Stack]:
    cloud = Cloud()
    with served(cloud) as endpoint:
        yield Stack(cloud, endpoint)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    file = tmp_path / "debian.qcow2"
    file.write_bytes(b"QFI\xfb")
    return file


def test_a_network_is_made_once_and_has_just_its_rules(stack: Stack) -> None:
    id = stack.make(CloudStackNetworkKind, **NETWORK, rules=[LICENCES])
    assert stack.make(CloudStackNetworkKind, **NETWORK, rules=[LICENCES]) == id
    (network,) = stack.cloud.networks.values()
    assert (network["name"], network["gateway"], network["cidr"]) == (
        "tidepool-dev",
        "10.77.0.1",
        "10.77.0.0/16",
    )
    assert network["tags"] == [{"key": "tidepool:stack", "value": "dev"}]
    (rule,) = stack.cloud.egress.values()
    said = ("tcp", "10.77.10.0/24", "192.0.2.7/32", "27000", "27010")
    assert (
        tuple(rule[key] for key in ("protocol", "cidrlist", "destcidrlist", "startport", "endport")) == said
    )
    assert stack.look(CloudStackNetworkKind, id, **NETWORK, rules=[LICENCES]) == AS_KNOWN
    stack.update(CloudStackNetworkKind, id, **NETWORK, rules=[EVERYWHERE])
    (rule,) = stack.cloud.egress.values()
    assert (rule["destcidrlist"], "startport" in rule) == ("0.0.0.0/0", False)
    stack.delete(CloudStackNetworkKind, id, **NETWORK)
    assert stack.look(CloudStackNetworkKind, id, **NETWORK) is None


def test_a_rule_that_somebody_added_or_took_is_seen_and_mended(stack: Stack) -> None:
    id = stack.make(CloudStackNetworkKind, **NETWORK, rules=[LICENCES])
    stack.api.call("createEgressFirewallRule", networkid=id, protocol="all", cidrlist=["10.77.0.0/16"])
    assert stack.look(CloudStackNetworkKind, id, **NETWORK, rules=[LICENCES]) == {"state": "changed by hand"}
    stack.update(CloudStackNetworkKind, id, **NETWORK, rules=[LICENCES])
    assert stack.look(CloudStackNetworkKind, id, **NETWORK, rules=[LICENCES]) == AS_KNOWN
    assert len(stack.cloud.egress) == 1


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_whichever_answer_of_a_network_is_lost_it_is_made_once(stack: Stack, lost: int) -> None:
    stack.cloud.lose = lost
    for _ in range(lost):
        with pytest.raises(Transient):
            stack.make(CloudStackNetworkKind, **NETWORK, rules=[LICENCES])
    stack.make(CloudStackNetworkKind, **NETWORK, rules=[LICENCES])
    assert (len(stack.cloud.networks), len(stack.cloud.egress)) == (1, 1)


def test_a_tier_of_a_vpc_has_an_access_list_whose_last_rule_refuses(stack: Stack) -> None:
    vpc = {"id": "v", "name": "science", "cidr": "10.0.0.0/8"}
    stack.cloud.vpcs.append(vpc)
    offering = "DefaultIsolatedNetworkOfferingForVpcNetworks"
    rule = {"protocol": "tcp", "sources": [], "to": ["192.0.2.7/32"], "first": 443, "last": 443}
    told = {**NETWORK, "offering": offering, "vpc": "science", "rules": [rule]}
    id = stack.make(CloudStackNetworkKind, **told)
    assert stack.make(CloudStackNetworkKind, **told) == id
    rules = sorted(stack.cloud.acls.values(), key=lambda each: int(each["number"]))
    assert [(each["action"], each["cidrlist"]) for each in rules] == [
        ("allow", "192.0.2.7/32"),
        ("deny", "0.0.0.0/0"),
    ]
    assert stack.look(CloudStackNetworkKind, id, **told) == AS_KNOWN
    stack.delete(CloudStackNetworkKind, id, **told)
    assert (stack.cloud.networks, stack.cloud.acl_lists) == ({}, {})


def test_an_image_is_registered_with_its_digest_and_checked_by_it(stack: Stack, image: Path) -> None:
    stack.cloud.images[TEMPLATE["url"]] = hashlib.sha256(image.read_bytes()).hexdigest()
    told = {**TEMPLATE, "path": str(image), "osType": OS_TYPE}
    id = stack.make(kinds.CloudStackTemplateKind, **told)
    assert stack.make(kinds.CloudStackTemplateKind, **told) == id
    assert stack.cloud.templates[id]["checksum"].startswith("{SHA-256}")
    assert stack.look(kinds.CloudStackTemplateKind, id, **told) == AS_KNOWN
    stack.delete(kinds.CloudStackTemplateKind, id, **told)
    assert stack.look(kinds.CloudStackTemplateKind, id, **told) is None


def test_a_file_that_is_another_or_is_not_there_makes_no_template(stack: Stack, image: Path) -> None:
    told = {**TEMPLATE, "path": str(image), "osType": OS_TYPE}
    with pytest.raises(Permanent, match="URL is not reachable"):
        stack.make(kinds.CloudStackTemplateKind, **told)
    stack.cloud.images[TEMPLATE["url"]] = "0" * 64
    with pytest.raises(Permanent, match=r"checksum .* does not match; put debian.qcow2 there"):
        stack.make(kinds.CloudStackTemplateKind, **told)
    assert stack.cloud.templates == {}
    with pytest.raises(NotThere, match="knows no OS type Plan 9"):
        stack.make(kinds.CloudStackTemplateKind, **{**told, "osType": "Plan 9"})


def test_a_template_that_takes_its_time_is_gone_on_with(stack: Stack, image: Path) -> None:
    stack.cloud.images[TEMPLATE["url"]] = hashlib.sha256(image.read_bytes()).hexdigest()
    told = {**TEMPLATE, "path": str(image), "osType": OS_TYPE}
    id = stack.make(kinds.CloudStackTemplateKind, **told)
    stack.cloud.templates[id] |= {"isready": False, "status": "43% Downloaded"}
    with pytest.raises(Unfinished, match="is not ready \\(43% Downloaded\\)"):
        stack.make(kinds.CloudStackTemplateKind, 0.5, **told)
    stack.cloud.templates[id]["isready"] = True
    assert stack.make(kinds.CloudStackTemplateKind, **told) == id


def test_offerings_are_found_by_shape_or_made_where_one_may(stack: Stack) -> None:
    ids = {each["name"]: each["id"] for each in stack.cloud.service_offerings}
    kind = kinds.CloudStackServiceOfferingKind
    assert stack.make(kind, cpus=4, memoryMib=3000) == ids["large"]
    assert stack.make(kind, cpus=4, memoryMib=9000) == ids["custom"]
    stack.cloud.service_offerings.pop()
    with pytest.raises(NotThere, match="no service offering fits 4 processors and 9000 MiB"):
        stack.make(kind, cpus=4, memoryMib=9000)
    gpu = {
        "cpus": 4,
        "memoryMib": 9000,
        "details": {"numa": "2"},
        "make": True,
        "cpuMhz": 2000,
        "hostTags": ["gpu"],
    }
    made = stack.make(kind, **gpu)
    assert stack.make(kind, **gpu) == made
    assert stack.cloud.service_offerings[-1]["serviceofferingdetails"] == {"numa": "2"}
    assert stack.cloud.service_offerings[-1]["hosttags"] == "gpu"
    stack.delete(kind, made, **gpu)
    stack.delete(kind, ids["large"], cpus=4, memoryMib=3000)
    assert [each["name"] for each in stack.cloud.service_offerings] == ["small", "large"]
    stack.cloud.denied.add("createServiceOffering")
    with pytest.raises(NotAllowed, match="not available for user"):
        stack.make(kind, **gpu)


def test_user_data_of_another_content_comes_to_machines_that_run(stack: Stack) -> None:
    kind = kinds.CloudStackUserDataKind
    boot = stack.make(kind, boot="cpu", content="#cloud-config\nbefore")
    machine = stack.make(kinds.CloudStackMachineKind, **stack.machine(boot=boot))
    assert stack.make(kind, boot="cpu", content="#cloud-config\nafter") == boot
    (told,) = stack.cloud.user_data.values()
    assert gzip.decompress(base64.b64decode(told["userdata"])) == b"#cloud-config\nafter"
    assert stack.cloud.vms[machine]["userdataid"] == told["id"]
    assert stack.cloud.vms[machine]["state"] == "Running"
    assert "startVirtualMachine" not in stack.cloud.requests
    stack.cloud.take_away("cpu-1")
    stack.delete(kind, boot, boot="cpu", content="-")
    assert stack.look(kind, boot, boot="cpu", content="-") is None


def test_user_data_that_is_too_long_is_told_with_the_setting(stack: Stack) -> None:
    noise = "".join(hashlib.sha256(str(at).encode()).hexdigest() for at in range(2000))
    with pytest.raises(Permanent, match=r"raise CloudStack's setting vm.userdata.max.length"):
        stack.make(kinds.CloudStackUserDataKind, boot="ctl", content=noise)


def test_machines_of_a_strict_group_are_on_hosts_of_their_own(stack: Stack) -> None:
    told = {"name": "tidepool-dev-cpu", "type": "host anti-affinity"}
    group = stack.make(kinds.CloudStackAffinityGroupKind, **told)
    assert stack.make(kinds.CloudStackAffinityGroupKind, **told) == group
    parts = stack.machine(affinityGroups=[group])
    for number in (1, 2):
        node = {"machine": f"cpu-{number}", "address": f"10.77.10.{number}"}
        stack.make(kinds.CloudStackMachineKind, **{**parts, **node})
    assert {vm["hostid"] for vm in stack.cloud.vms.values()} == {"kvm-1", "kvm-2"}
    with pytest.raises(InsufficientCapacity, match="cpu-3"):
        stack.make(kinds.CloudStackMachineKind, **{**parts, "machine": "cpu-3", "address": "10.77.10.3"})
    for number in (1, 2):
        stack.cloud.take_away(f"cpu-{number}")
    stack.delete(kinds.CloudStackAffinityGroupKind, group, **told)
    assert stack.look(kinds.CloudStackAffinityGroupKind, group, **told) is None


def test_a_machine_is_made_seen_when_it_stops_and_gone_when_it_goes(stack: Stack) -> None:
    kind, parts = kinds.CloudStackMachineKind, stack.machine()
    id = stack.make(kind, **parts)
    assert stack.make(kind, **parts) == id
    assert stack.look(kind, id, **parts) == AS_KNOWN
    stack.cloud.power_off("cpu-1")
    assert stack.look(kind, id, **parts) == {"state": "stopped"}
    stack.update(kind, id, **parts)
    assert stack.look(kind, id, **parts) == AS_KNOWN
    stack.delete(kind, id, **parts)
    assert stack.look(kind, id, **parts) is None
    with pytest.raises(Refusal, match="is gone; `tidepool up --refresh` makes another one"):
        stack.update(kind, id, **parts)


def test_an_offering_that_leaves_sizes_open_is_told_them(stack: Stack) -> None:
    custom = next(each["id"] for each in stack.cloud.service_offerings if each["name"] == "custom")
    stack.make(kinds.CloudStackMachineKind, **stack.machine(offering=custom, cpus=3, memoryMib=777))
    vm = stack.cloud.vm("cpu-1")
    assert (vm["cpunumber"], vm["memory"]) == (3, 777)


def test_a_machine_has_the_devices_that_settings_allow(stack: Stack) -> None:
    device = "<hostdev mode='subsystem' type='pci'><source><address bus='0x3b' slot='~'/></source></hostdev>"
    parts = stack.machine(extraConfig=device)
    with pytest.raises(Permanent, match=r"enable.additional.vm.configuration is disabled"):
        stack.make(kinds.CloudStackMachineKind, **parts)
    stack.cloud.extra_allowed = {"hostdev"}
    with pytest.raises(Permanent, match="'source' is not on the list of allowed keys"):
        stack.make(kinds.CloudStackMachineKind, **parts)
    stack.cloud.extra_allowed |= {"source", "address"}
    stack.make(kinds.CloudStackMachineKind, **parts)
    assert stack.cloud.vm("cpu-1")["extraconfig"] == device


def test_a_machine_that_was_begun_is_pulumis(stack: Stack) -> None:
    """So that a `destroy` takes it away; and the next `up` goes on with it."""
    parts = stack.machine()
    stack.cloud.stuck.add("deployVirtualMachine")
    with pytest.raises(Unfinished, match="the next `tidepool up` goes on from here") as raised:
        stack.make(kinds.CloudStackMachineKind, 0.5, **parts)
    (vm,) = stack.cloud.vms.values()
    assert (raised.value.id, vm["state"]) == (vm["id"], "Starting")
    for job in stack.cloud.jobs.values():
        job.ends = 0
    stack.update(kinds.CloudStackMachineKind, vm["id"], **parts)
    assert [each.state for each in find(stack.api, "dev")] == ["Running"]


def test_a_machine_whose_answer_is_lost_is_found_at_once(stack: Stack) -> None:
    parts = stack.machine()
    stack.cloud.lose = 1
    id = stack.make(kinds.CloudStackMachineKind, **parts)
    assert (stack.cloud.lose, [*stack.cloud.vms]) == (0, [id])
    assert stack.look(kinds.CloudStackMachineKind, id, **parts) == AS_KNOWN


def test_one_whose_answers_are_lost_again_is_pulumis_and_gone_on_with(stack: Stack) -> None:
    parts = stack.machine()
    stack.cloud.lose = 2
    with pytest.raises(Unfinished) as raised:
        stack.make(kinds.CloudStackMachineKind, **parts)
    assert stack.make(kinds.CloudStackMachineKind, **parts) == raised.value.id
    assert stack.cloud.requests.count("deployVirtualMachine") == 1


def test_a_machine_that_was_left_without_its_tags_gets_them(stack: Stack) -> None:
    parts = stack.machine()
    id = stack.make(kinds.CloudStackMachineKind, **parts)
    stack.cloud.vms[id]["tags"] = []
    assert stack.look(kinds.CloudStackMachineKind, id, **parts) == {"state": "without its tags"}
    stack.update(kinds.CloudStackMachineKind, id, **parts)
    assert stack.look(kinds.CloudStackMachineKind, id, **parts) == AS_KNOWN


def test_a_port_leads_to_a_login_machine_for_its_sources_alone(stack: Stack) -> None:
    parts = stack.machine(machine="login-1")
    machine = stack.make(kinds.CloudStackMachineKind, **parts)
    told = {"network": parts["network"], "machine": machine, "port": 2222, "sources": ["198.51.100.0/24"]}
    id = stack.make(CloudStackPortForwardingKind, **told)
    assert stack.make(CloudStackPortForwardingKind, **told) == id
    (rule,) = stack.cloud.forwardings.values()
    assert (rule["publicport"], rule["privateport"], rule["openfirewall"]) == ("2222", "22", False)
    stack.update(CloudStackPortForwardingKind, id, **{**told, "sources": ["192.0.2.0/24"]})
    assert [each["cidrlist"] for each in stack.cloud.firewall.values()] == ["192.0.2.0/24"]
    assert stack.look(CloudStackPortForwardingKind, id, **told) == {"state": "changed by hand"}
    stack.delete(CloudStackPortForwardingKind, id, **told)
    assert (stack.cloud.forwardings, stack.cloud.firewall) == ({}, {})
