"""What goes wrong with bare metal alone, beside the faults of all infrastructures; at the Redfish service of sushy-tools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests import versions
from tests.infrastructures.conftest import a_request
from tests.infrastructures.metal_world import MetalWorld, metal_world
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.boot_media.credentials import read_credentials
from tidepool.infrastructures.metal.inventory import Claim, Need
from tidepool.infrastructures.metal.preflight import described
from tidepool.infrastructures.metal.redfish import Conflict, Silent

pytestmark = [
    pytest.mark.runs("metal", versions.installed("sushy"), f"Redfish of {versions.installed('sushy-tools')}")
]


@pytest.fixture
def world() -> Iterator[MetalWorld]:
    with metal_world() as made:
        yield made


def test_a_host_is_claimed_booted_from_its_medium_and_switched_on_and_given_back_as_it_was(
    world: MetalWorld,
) -> None:
    machine = world.infrastructure.create(a_request("one"))
    claim = Claim.read(world.bmcs.tags["alpha"])
    assert claim is not None
    assert (claim.stack, claim.node, machine.machine_id) == ("one", "cpu-1", f"alpha/{claim.id}")
    alpha = world.bmcs.system("alpha")
    assert (alpha["power_state"], alpha["boot_device"]) == ("On", "Cd")
    assert alpha["boot_image"]["Cd"][0]
    world.infrastructure.delete(machine.key)
    alpha = world.bmcs.system("alpha")
    assert (alpha["power_state"], alpha["boot_device"], alpha["boot_image"]["Cd"][0]) == ("Off", "Hdd", None)
    assert world.bmcs.tags["alpha"] == ""


def test_the_tag_of_the_site_is_there_again(world: MetalWorld) -> None:
    world.bmcs.tags["alpha"] = "Chicago-45Z-2381"
    entries = world.infrastructure.hosts.entries
    told = {**entries, "alpha": replace(entries["alpha"], asset_tag="Chicago-45Z-2381")}
    infrastructure = replace(
        world.infrastructure, hosts=replace(world.infrastructure.hosts, entries={"alpha": told["alpha"]})
    )
    machine = infrastructure.create(a_request("one"))
    infrastructure.delete(machine.key)
    assert world.bmcs.tags["alpha"] == "Chicago-45Z-2381"


def test_hosts_that_are_somebodys_are_left_as_they_are_and_each_says_why(world: MetalWorld) -> None:
    world.bmcs.tags |= {"alpha": "rack 7", "beta": "tidepool:two/gpu-1/00000000"}
    world.bmcs.change("gamma", power_state="On")
    with pytest.raises(InsufficientCapacity) as raised:
        world.infrastructure.create(a_request("one"))
    said = str(raised.value)
    assert "alpha: its AssetTag is 'rack 7'" in said
    assert "beta: it is the node gpu-1 of the stack two" in said
    assert "gamma: it is On, and no node of any stack" in said
    world.infrastructure.delete(MachineKey("one", "gpu-1"))
    assert world.bmcs.tags == {"alpha": "rack 7", "beta": "tidepool:two/gpu-1/00000000", "gamma": ""}


def test_attributes_of_the_bios_are_set_and_what_a_bios_has_not_is_told(world: MetalWorld) -> None:
    world.bmcs.change("alpha", bios={"Other": "x"})
    need = Need(8, 1024, {"LogicalProc": "Disabled"})
    machine = replace(world.infrastructure, need=need).create(a_request("one"))
    assert machine.machine_id.startswith("beta/")
    assert world.bmcs.driver.get_bios("beta") == {"LogicalProc": "Disabled", "SysProfile": "Balanced"}


def test_firmware_without_a_virtual_cd_is_no_host_and_a_shape_larger_than_any_is_told(
    world: MetalWorld,
) -> None:
    world.bmcs.no_media |= {"alpha"}
    with pytest.raises(InsufficientCapacity) as raised:
        replace(world.infrastructure, need=Need(99, 1024)).create(a_request("one"))
    said = str(raised.value)
    assert "alpha: it has 16 cpus, and the shape 99" in said
    assert "its firmware has no virtual CD" in said
    assert world.infrastructure.create(a_request("one")).machine_id.startswith("beta/")


def test_firmware_is_listed_as_the_bmc_has_it_and_one_that_lists_none_says_so(world: MetalWorld) -> None:
    bmc = world.infrastructure.hosts.bmc("alpha")
    assert "firmware not told" in described(bmc.facts(whole=True))
    world.bmcs.firmware |= {"NIC.Slot.1": "22.31.6", "BMC": "6.10.80"}
    assert ", BMC 6.10.80, NIC.Slot.1 22.31.6, " in described(bmc.facts(whole=True))


def test_a_host_that_answers_500_costs_no_node(world: MetalWorld) -> None:
    world.bmcs.fails.add("alpha")
    assert world.infrastructure.create(a_request("one")).machine_id.startswith("beta/")
    # Nobody here ever booted it, so it is none of them.
    seen = world.infrastructure.list("one")
    assert [(each.key.node, each.state) for each in seen] == [("cpu-1", "running")]


def test_of_a_host_that_nobody_has_seen_yet_the_node_that_it_was_booted_as_is_unknown(
    world: MetalWorld,
) -> None:
    world.infrastructure.create(a_request("one"))
    world.bmcs.fails.add("alpha")
    (unknown,) = replace(world.infrastructure).list("one")
    assert (unknown.key.node, unknown.state) == ("cpu-1", "unknown")
    assert "the host alpha: " in unknown.why
    assert "answers with 500: internal" in unknown.why


def test_a_host_that_was_seen_free_before_it_fell_silent_hides_nobody(world: MetalWorld) -> None:
    machine = world.infrastructure.create(a_request("one"))
    assert world.infrastructure.list("one") == (machine,)
    world.bmcs.down.add("beta")
    assert world.infrastructure.list("one") == (machine,)
    world.bmcs.down.add("alpha")
    (unknown,) = world.infrastructure.list("one")
    assert (unknown.key, unknown.state) == (MachineKey("one", "cpu-1"), "unknown")
    for key in (machine.key, MachineKey("one", "cpu-1")):
        for call in (world.infrastructure.read, world.infrastructure.delete):
            with pytest.raises(Silent, match="nothing answers"):
                call(key)
    world.bmcs.down.add("gamma")
    with pytest.raises(Silent):
        world.infrastructure.list("one")
    world.bmcs.down.clear()
    assert world.infrastructure.list("one") == (machine,)


def test_a_host_whose_power_lies_is_given_back_and_the_next_one_taken(world: MetalWorld) -> None:
    world.bmcs.change("alpha", stuck=True)
    assert world.infrastructure.create(a_request("one")).machine_id.startswith("beta/")
    assert world.bmcs.tags["alpha"] == ""


def test_a_host_that_does_not_go_off_stays_claimed_and_nobody_gets_it(world: MetalWorld) -> None:
    machine = world.infrastructure.create(a_request("one"))
    world.bmcs.change("alpha", stuck=True)
    with pytest.raises(Transient, match="told to go off, and its BMC says On still"):
        world.infrastructure.delete(machine.key)
    assert world.infrastructure.list("one") == (machine,)
    world.bmcs.change("alpha", stuck=False)
    world.infrastructure.delete(machine.key)
    assert world.infrastructure.list("one") == ()


def test_of_two_stacks_at_one_host_one_has_it(world: MetalWorld) -> None:
    """The other one writes between our question and our claim, with an ETag and without."""
    for host, etags in (("alpha", True), ("beta", False)):
        world.bmcs.etags = etags
        late = f"tidepool:two/{host}/00000000"

        def somebody(name: str, host: str = host, late: str = late) -> None:
            if name == host:
                world.bmcs.tags[host] = late

        if etags:
            world.bmcs.before_tag = somebody
            made = world.infrastructure.create(a_request("one"))
        else:
            # Ours is overwritten while we wait.
            hosts = replace(world.infrastructure.hosts, sleep=lambda _: somebody("beta"))
            world.bmcs.before_tag = None
            world.infrastructure.delete(made.key)
            made = replace(world.infrastructure, hosts=hosts).create(a_request("one"))
        assert not made.machine_id.startswith(host)
        assert world.bmcs.tags[host] == late


def test_a_bmc_that_keeps_no_tag_is_told(world: MetalWorld) -> None:
    world.bmcs.deaf.add("alpha")
    bmc = world.infrastructure.hosts.bmc("alpha")
    with pytest.raises(Permanent, match=r"says that it wrote the AssetTag.* and has ''"):
        bmc.tag("tidepool:one/cpu-1/00000000", "")
    with pytest.raises(Conflict, match="its AssetTag is '' by now"):
        bmc.tag("rack 7", "rack 8")
    # It costs no node, as long as there is another host.
    assert world.infrastructure.create(a_request("one")).machine_id.startswith("beta/")
    world.bmcs.deaf.update(("beta", "gamma"))
    with pytest.raises(Permanent, match=r"no host is to be had: .*alpha: .*says that it wrote the AssetTag"):
        world.infrastructure.create(a_request("one", 2))


def test_a_wrong_password_and_a_user_who_may_not_are_told_with_the_file(world: MetalWorld) -> None:
    world.bmcs.read_only.add("alpha")
    with pytest.raises(Permanent, match=r"does not let the user in .*/bmc do that"):
        world.infrastructure.hosts.bmc("alpha").reset("On")
    world.bmcs.password = "another"
    with pytest.raises(Permanent, match=r"does not take the user and the password in .*/bmc") as raised:
        world.infrastructure.list("one")
    assert "correct-horse" not in str(raised.value)


def test_a_system_that_is_not_there_is_told(world: MetalWorld) -> None:
    location = world.infrastructure.hosts.entries["alpha"].location
    with pytest.raises(Permanent, match="write system as it says"):
        replace(location, system="/redfish/v1/Systems/omega").open()
    with pytest.raises(Permanent, match="has several systems"):
        replace(location, system="").open()


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (None, 0, "cannot be read"),
        ("root:calvin\n", 0o644, "others may read .* chmod 600"),
        ("root\n", 0o600, "not one line USER:PASSWORD"),
        ("root:calvin\nroot:other\n", 0o600, "not one line"),
    ],
)
def test_a_file_of_credentials_is_one_line_that_nobody_else_reads(
    tmp_path: Path, text: str | None, mode: int, said: str
) -> None:
    path = tmp_path / "bmc"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(Permanent, match=said) as raised:
        read_credentials(path)
    assert "calvin" not in str(raised.value)


def test_a_certificate_of_somebody_else_is_refused_and_one_of_the_ca_trusted(tmp_path: Path) -> None:
    from tests.infrastructures.metal.bmcs import bmcs, signed_for_itself

    context, ca = signed_for_itself(tmp_path)
    with bmcs("alpha", context=context) as made:
        with pytest.raises(Permanent, match=r"the certificate of https://127.* is not trusted.* in ca"):
            made.entry("alpha").location.open()
        assert made.entry("alpha", ca=str(ca)).location.open().facts().power == "Off"
