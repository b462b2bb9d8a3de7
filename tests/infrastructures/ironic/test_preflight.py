"""What nodes of an Ironic lack of what a spec asks of them: all of it at once, in previews and by `doctor`."""

from __future__ import annotations

from typing import Any

from tests.infrastructures.ironic.specs import spec
from tests.infrastructures.ironic.test_inventory import OURS, a_host
from tidepool.cluster.failures import Note, unmarked
from tidepool.infrastructures.ironic.inventory import Host
from tidepool.infrastructures.ironic.preflight import demands, described, lacks
from tidepool.infrastructures.ironic.reading import read_options


def hosts(**told: Any) -> tuple[Host, ...]:
    """A head, and two for the fleet."""
    cpu = {"resource_class": "cpu", **told}
    return (
        a_host(name="head", uuid="h"),
        a_host(name="alpha", uuid="a", **cpu),
        a_host(name="beta", uuid="b", **cpu),
    )


def found(there: tuple[Host, ...], *offering: dict[str, Any], **fleet: int) -> tuple[list[str], list[str]]:
    """What is lacking, and what is noted."""
    asked = spec(*offering, fleet=fleet)
    every = lacks(demands(asked, "one", read_options(asked)), there, {})
    return (
        [unmarked(each)[0] for each in every if isinstance(each, str)],
        [each.text for each in every if isinstance(each, Note)],
    )


def test_fit_hosts_lack_nothing_and_those_that_are_ours_already_neither() -> None:
    assert found(hosts(), min_nodes=2) == ([], [])
    ours = hosts(state="active", power="power on", instance=OURS.instance, marked=str(OURS))
    assert found(ours, min_nodes=2) == ([], [])


def test_an_ironic_that_shows_no_node_is_told() -> None:
    (lack,), _ = found(())
    assert (
        "controller.infrastructure.options.cloud: the Ironic of the cloud site has no node, or shows this user none"
        in lack
    )


def test_a_hardware_type_without_the_deploy_interface_is_told_with_where_to_enable_it() -> None:
    asked = spec()
    there = hosts(driver="ipmi")
    told = lacks(
        demands(asked, "one", read_options(asked)),
        there,
        {"ipmi": frozenset({"direct"}), "redfish": frozenset({"direct"})},
    )
    (lack,) = told
    assert (
        "no deploy interface ramdisk for the hardware type ipmi, and direct: add it to enabled_deploy"
        in str(lack)
    )


def test_hosts_that_are_to_be_enrolled_are_reckoned_with() -> None:
    host = {"bmc": "https://10.9.1.11", "mac": "52:54:00:00:00:0b"}
    asked = spec(
        {"hosts": ["alpha"]}, enrol={"alpha": host}, fleet={"min_nodes": 1}, machines={"hosts": ["head"]}
    )
    wanted = demands(asked, "one", read_options(asked))
    assert lacks(wanted, hosts()[:1], {}) == ()
    # Once it is, Ironic says what it has.
    (lack,) = lacks(wanted, (hosts()[0], a_host(cpus=1)), {})
    assert "none of its hosts is fit: alpha: it has 1 cpus" in str(lack)


def test_a_shape_larger_than_any_host_and_no_virtual_media_are_told_with_each_hosts_reason() -> None:
    there = hosts(cpus=4, boot_interface="ipxe")
    (lack,), _ = found(there)
    assert (
        "fleets[0].infrastructures[0].options: none of its hosts is fit: head: its resource class is none"
        in lack
    )
    assert "alpha: it has 4 cpus, and the shape 8" in lack
    assert "baremetal node set beta --boot-interface redfish-virtual-media" in lack


def test_all_that_is_wrong_is_told_at_once_and_a_host_in_maintenance_is_noted() -> None:
    head, alpha, beta = hosts(is_in_maintenance=True, maintenance_reason="disk", cpus=None)
    wrong, noted = found((head, alpha, beta), {"hosts": ["alpha", "omega"]}, min_nodes=1)
    assert (
        "fleets[0].infrastructures[0].options.hosts[1]: Ironic has no node omega: nodes are head, alpha, beta"
        in wrong[0]
    )
    assert "1 machines are wanted at least, and 0 hosts are fit and nobody else's" in wrong[1]
    assert "the node alpha of Ironic: it is in maintenance (disk)" in noted[0]
    assert "baremetal node set alpha --property cpus=N" in noted[1]
    assert not any("beta" in each for each in noted)


def test_a_host_is_described_in_a_line() -> None:
    told = a_host(
        resource_class="cpu", state="active", power="power on", instance=OURS.instance, marked=str(OURS)
    )
    assert described(told) == (
        "cpu, 16 cpus, 65536 MiB, redfish-virtual-media, active, power on, node cpu-1 of stack one"
    )
    assert described(a_host(cpus=None, memory_mib=None)).endswith("available, nobody's")
