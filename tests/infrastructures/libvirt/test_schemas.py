"""Every domain, network and pool that the graph comes to is valid by libvirt's own schemas, with XSLT applied."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from tests.infrastructures.libvirt.graph import DOMAIN, NETWORK, POOL, registered
from tests.infrastructures.libvirt.schemas import missing, wrong, xml_of
from tests.infrastructures.libvirt.specs import TO_LICENCES, TUNED, TWO_HOSTS, spec
from tidepool.infrastructures.libvirt.domain import Identity, read_identity
from tidepool.testing import Graph

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

PLAIN: dict[str, Any] = {}
#: What each option adds, alone and with all others.
OFFERINGS: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "tuned": TUNED,
    "emulated": {"virtualization": "qemu", "machine_type": "pc"},
    "emulated and tuned": {**TUNED, "virtualization": "qemu"},
    **{
        key: {key: TUNED[key]}
        for key in ("cells", "emulator_cpus", "hugepages", "pci_devices", "sriov_network")
    },
    "huge pages of 1 GiB": {"hugepages": "1GiB", "overhead": "1GiB"},
    "host-model": {"cpu": "host-model", "machine_type": "pc-q35-7.2"},
    "maximum": {"cpu": "maximum"},
}


def domain_of(graph: Graph, name: str) -> ET.Element:
    return ET.fromstring(xml_of(graph[f"{DOMAIN} {name}"]))


@pytest.mark.parametrize("offering", OFFERINGS.values(), ids=OFFERINGS)
def test_every_domain_is_valid(offering: dict[str, Any]) -> None:
    graph = registered(
        spec(offering, machines={key: offering[key] for key in offering if key == "virtualization"})
    )
    for domain in graph.of_type(DOMAIN).values():
        assert wrong(xml_of(domain), "domain") == ""


@pytest.mark.parametrize(
    "place",
    [
        {},
        {"outside": True, "firewall": TO_LICENCES},
        {"bridge": "br0"},
        {"bridge": "br0", "hosts": TWO_HOSTS},
    ],
)
def test_every_network_and_every_pool_is_valid(place: dict[str, Any]) -> None:
    graph = registered(spec(**place))
    for network in graph.of_type(NETWORK).values():
        assert wrong(xml_of(network), "network") == ""
    for pool in graph.of_type(POOL).values():
        assert wrong(xml_of(pool), "storagepool") == ""


def test_what_is_wrong_is_seen() -> None:
    xml = xml_of(registered(spec(TUNED))[f"{DOMAIN} cpu-1"])
    assert wrong(xml, "domain") == ""
    for good, bad in (
        ('mode="strict"', 'mode="stern"'),
        ('cpuset="4"', 'cpuset="four"'),
        ('bus="0x3b"', 'bus="3b-"'),
        ("<hugepages>", "<hugepages/><hugepages>"),
    ):
        assert good in xml
        assert "fails to validate" in wrong(xml.replace(good, bad), "domain")


def test_each_machine_has_its_own_processors_memory_and_devices() -> None:
    graph = registered(spec(TUNED), {"cpu": "cpu-[1-4]"})
    domains = [domain_of(graph, f"cpu-{number}") for number in range(1, 5)]
    pins = [[each.get("cpuset") for each in domain.iterfind("cputune/vcpupin")] for domain in domains]
    assert pins == [list(map(str, range(start, start + 4))) for start in (4, 8, 16, 20)]
    nodes = [domain.find("numatune/memory") for domain in domains]
    assert [(node.get("mode"), node.get("nodeset")) for node in nodes if node is not None] == [
        ("strict", node) for node in "0011"
    ]
    assert {each.get("cpuset") for domain in domains for each in domain.iterfind("cputune/emulatorpin")} == {
        "0-1"
    }
    devices = [
        ET.tostring(each) for domain in domains for each in domain.iterfind("devices/hostdev/source/address")
    ]
    assert len(devices) == len({*devices}) == 4
    pages = {
        (page.get("size"), page.get("unit"))
        for d in domains
        for page in d.iterfind("memoryBacking/hugepages/page")
    }
    assert pages == {("2048", "KiB")}
    interfaces = [
        each.get("address") for domain in domains for each in domain.iterfind("devices/interface/mac")
    ]
    assert len(interfaces) == len({*interfaces}) == 8


def test_the_processor_has_the_shape_that_slurm_is_told_of() -> None:
    topology = domain_of(registered(spec()), "cpu-1").find("cpu/topology")
    assert topology is not None
    assert topology.attrib == {"sockets": "1", "cores": "2", "threads": "2"}


def test_the_seed_is_on_a_bus_that_the_machine_has_and_the_plugin_still_knows_it() -> None:
    domain = domain_of(registered(spec()), "cpu-1")
    seed = domain.find("devices/disk[@device='cdrom']")
    assert seed is not None
    target = seed.find("target")
    assert target is not None
    # Not of SATA: Debian's cloud kernels have no driver of q35's.
    assert target.attrib == {"dev": "sda", "bus": "scsi"}
    assert domain.find("devices/controller[@type='scsi'][@model='virtio-scsi']") is not None
    assert seed.findtext("serial") == "cloudinit"


def test_each_machine_is_told_its_name_by_its_serial_number() -> None:
    graph = registered(spec())
    for name in ("ctl", "login-1", "cpu-1", "cpu-2"):
        domain = domain_of(graph, name)
        assert domain.findtext("sysinfo/system/entry[@name='serial']") == f"ds=nocloud;h={name}"
        smbios = domain.find("os/smbios")
        assert smbios is not None
        assert smbios.get("mode") == "sysinfo"


def test_each_domain_says_whose_it_is() -> None:
    graph = registered(spec())
    for name in ("ctl", "login-1", "cpu-2"):
        assert read_identity(domain_of(graph, name)) == Identity("dev", name)
    assert 'fleet="cpu"' in xml_of(graph[f"{DOMAIN} cpu-2"])


def test_nothing_is_asked_for_that_nobody_said() -> None:
    domain = domain_of(registered(spec()), "cpu-1")
    for path in (
        "cputune",
        "numatune",
        "memoryBacking",
        "devices/hostdev",
        "devices/graphics",
        "features/tcg",
        "cpu/feature",
        "sysinfo/system/entry[@name='family']",
    ):
        assert domain.find(path) is None
    graph = registered(spec({"virtualization": "qemu"}))
    assert wrong(xml_of(graph[f"{DOMAIN} cpu-1"]), "domain") == ""
    emulated = domain_of(graph, "cpu-1")
    assert emulated.get("type") == "qemu"
    assert emulated.findtext("features/tcg/tb-cache") == "512"
    assert emulated.findtext("sysinfo/system/entry[@name='family']") == "tidepool-emulated"
    assert {each.get("policy") for each in emulated.iterfind("cpu/feature")} == {"disable"}
    assert emulated.find("cpu/topology") is not None


def test_a_network_has_no_spanning_tree_and_gives_addresses_to_no_stranger() -> None:
    for place in ({}, {"outside": True, "firewall": TO_LICENCES}):
        network = ET.fromstring(xml_of(registered(spec(**place))[f"{NETWORK} net@here"]))  # type: ignore[arg-type]
        bridge, dhcp = network.find("bridge"), network.find("ip/dhcp")
        assert bridge is not None
        assert bridge.get("stp") == "off"
        assert dhcp is not None
        assert len(dhcp) == 0


def test_any_two_options_go_together() -> None:
    keys = ("cells", "emulator_cpus", "hugepages", "pci_devices", "sriov_network")
    for pair in itertools.combinations(keys, 2):
        graph = registered(spec({key: TUNED[key] for key in pair}), {"cpu": "cpu-1"})
        assert wrong(xml_of(graph[f"{DOMAIN} cpu-1"]), "domain") == ""
