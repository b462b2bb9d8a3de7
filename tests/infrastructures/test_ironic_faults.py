"""What goes wrong with Ironic alone, beside the faults of all infrastructures; at a real one, with BMCs of sushy-tools."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from tests import versions
from tests.infrastructures.conftest import a_request
from tests.infrastructures.ironic.server import CLOUD, Server, write_clouds
from tests.infrastructures.ironic_world import IronicWorld, ironic_world
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.ironic.api import Conflict, Enrolment, IronicLocation, Silent
from tidepool.infrastructures.ironic.enrolment import delete_host, enrol
from tidepool.infrastructures.ironic.inventory import EXTRA, Claim, Need

pytestmark = [
    pytest.mark.slow,
    pytest.mark.runs(
        "ironic",
        versions.installed("openstacksdk"),
        versions.installed("ironic"),
        f"Redfish of {versions.installed('sushy-tools')}",
    ),
]


@pytest.fixture
def world(ironic_server: Server) -> Iterator[IronicWorld]:
    with ironic_world(ironic_server) as made:
        yield made


def node(world: IronicWorld, name: str) -> dict[str, object]:
    found: dict[str, object] = world.server.ask("GET", f"/nodes/{name}")
    return found


def test_a_host_is_claimed_deployed_from_its_medium_and_available_again_when_it_is_given_back(
    world: IronicWorld,
) -> None:
    machine = world.infrastructure.create(a_request("one"))
    alpha = node(world, "alpha")
    assert (alpha["provision_state"], alpha["instance_uuid"]) == ("active", machine.machine_id)
    # Its own is another, which stays.
    assert alpha["deploy_interface"] == "direct"
    system = world.bmcs.system("alpha")
    assert (system["power_state"], system["boot_device"]) == ("On", "Cd")
    assert system["boot_image"]["Cd"][0].endswith(f"/{machine.machine_id}.iso")
    world.infrastructure.delete(machine.key)
    world.server.until("alpha", "provision_state", "available")
    alpha, system = node(world, "alpha"), world.bmcs.system("alpha")
    assert (alpha["instance_uuid"], alpha["instance_info"]) == (None, {})
    assert (system["power_state"], system["boot_image"]["Cd"][0]) == ("Off", None)


def test_hosts_that_are_somebodys_are_left_as_they_are_and_each_says_why(world: IronicWorld) -> None:
    theirs, other = str(uuid.uuid4()), str(uuid.uuid4())
    world.server.change("alpha", "/instance_uuid", theirs)
    world.server.change("beta", "/instance_uuid", other)
    world.server.change("beta", f"/extra/{EXTRA}", str(Claim("two", "gpu-1", other)))
    world.server.ask("PUT", "/nodes/gamma/maintenance", {"reason": "a new disk"})
    with pytest.raises(InsufficientCapacity) as raised:
        world.infrastructure.create(a_request("one"))
    said = str(raised.value)
    assert f"alpha: it has the instance {theirs}, which is none of Tidepool's" in said
    assert "beta: it is the node gpu-1 of the stack two" in said
    assert "gamma: it is in maintenance (a new disk): baremetal node maintenance unset gamma" in said
    world.infrastructure.delete(MachineKey("one", "gpu-1"))
    assert node(world, "beta")["instance_uuid"] == other
    # Nor does anybody get one who looked before.
    claim = Claim("one", "cpu-1", str(uuid.uuid4()))
    with pytest.raises(Conflict, match="is associated with instance"):
        world.infrastructure.hosts.ironic.claim(str(node(world, "alpha")["uuid"]), claim, {})


def test_of_two_stacks_at_one_host_one_has_it(world: IronicWorld) -> None:
    """Both have seen it free before either claims it."""
    world.leave(1)

    def taken(stack: str) -> Machine | str:
        try:
            return world.infrastructure.create(a_request(stack))
        except InsufficientCapacity as error:
            return str(error)

    with ThreadPoolExecutor(2) as threads:
        came = list(threads.map(taken, ("one", "two")))
    (got,) = [each for each in came if isinstance(each, Machine)]
    (none,) = [each for each in came if isinstance(each, str)]
    assert "alpha: " in none
    assert node(world, "alpha")["instance_uuid"] == got.machine_id


def test_a_host_that_cannot_be_deployed_is_given_back_and_the_next_one_taken(world: IronicWorld) -> None:
    world.bmcs.no_media |= {"alpha"}
    assert world.host(world.infrastructure.create(a_request("one")).key) == "beta"
    # Ironic does not get its medium out either, and leaves it to a person.
    alpha = node(world, "alpha")
    assert (alpha["instance_uuid"], alpha["provision_state"], alpha["power_state"]) == (
        None,
        "error",
        "power off",
    )
    with pytest.raises(InsufficientCapacity, match=r"alpha: it is error \(Failed to tear down: .*see why"):
        replace(world.infrastructure, names=("alpha",)).create(a_request("one", 2))
    world.bmcs.no_media |= {"gamma"}
    # Where there is no other, it is told what Ironic says.
    alone = replace(world.infrastructure, names=("gamma",))
    with pytest.raises(
        Transient, match=r"no host is to be had: gamma: Ironic could not deploy it: .*VirtualMedia not found"
    ):
        alone.create(a_request("one", 2))
    assert [each.key.node for each in world.infrastructure.list("one")] == ["cpu-1"]


def test_a_host_that_does_not_go_off_stays_the_nodes_and_nobody_gets_it(world: IronicWorld) -> None:
    alone = replace(world.infrastructure, names=("alpha",))
    machine = alone.create(a_request("one"))
    world.bmcs.change("alpha", stuck=True)
    with pytest.raises(Transient, match=r"the host alpha could not be given back: .*see to its BMC"):
        alone.delete(machine.key)
    assert [each.key for each in alone.list("one")] == [machine.key]
    with pytest.raises(InsufficientCapacity, match="alpha: it is the node cpu-1 of the stack one"):
        alone.create(a_request("two"))
    world.bmcs.change("alpha", stuck=False)
    alone.delete(machine.key)
    assert alone.list("one") == ()


def test_a_host_that_is_not_cleaned_is_no_machine_and_says_why_it_is_not_to_be_had(
    world: IronicWorld,
) -> None:
    """The site has it cleaned by a ramdisk that there is not."""
    alone = replace(world.infrastructure, names=("alpha",))
    machine = alone.create(a_request("one"))
    world.server.change("alpha", "/automated_clean", True)
    alone.delete(machine.key)
    assert alone.list("one") == ()
    world.server.until("alpha", "provision_state", "clean failed")
    with pytest.raises(InsufficientCapacity, match=r"alpha: it is (in maintenance|clean failed)"):
        alone.create(a_request("one"))


def test_a_host_that_a_conductor_works_on_is_waited_for(world: IronicWorld) -> None:
    with sqlite3.connect(world.server.folder / "ironic.sqlite") as database:
        database.execute("UPDATE nodes SET reservation = 'conductor' WHERE name = 'alpha'")
    waited: list[str] = []

    def sleep(_: float) -> None:
        with sqlite3.connect(world.server.folder / "ironic.sqlite") as database:
            database.execute(
                "UPDATE nodes SET reservation = NULL WHERE reservation = 'conductor' AND name = 'alpha'"
            )
        waited.append("once")
        time.sleep(0.2)

    alone = replace(world.infrastructure, names=("alpha",), sleep=sleep)
    assert alone.create(a_request("one")).state == "running"
    assert waited


def test_a_machine_whose_host_is_in_maintenance_stays_and_says_why_it_does_not_run(
    world: IronicWorld,
) -> None:
    machine = world.infrastructure.create(a_request("one"))
    world.stop(machine.key)
    world.server.ask("PUT", "/nodes/alpha/maintenance", {"reason": "a new disk"})
    with pytest.raises(Transient, match=r"the host alpha, .*in maintenance \(a new disk\): baremetal node"):
        world.infrastructure.create(a_request("one"))
    (seen,) = world.infrastructure.list("one")
    assert (seen.key, seen.state, seen.why) == (machine.key, "stopped", "in maintenance: a new disk")
    # Who has it deleted gets it off, and nobody else gets it until it is well.
    world.infrastructure.delete(machine.key)
    assert world.infrastructure.list("one") == ()
    assert world.host(world.infrastructure.create(a_request("one")).key) == "beta"


def test_an_ironic_that_is_down_says_nothing_of_machines(world: IronicWorld) -> None:
    machine = world.infrastructure.create(a_request("one"))
    world.faults.down = True
    for call in (
        lambda: world.infrastructure.list("one"),
        lambda: world.infrastructure.read(machine.key),
        lambda: world.infrastructure.delete(machine.key),
    ):
        with pytest.raises(Silent, match="nothing answers at the cloud site"):
            call()
    world.faults.down, world.faults.status = False, 503
    with pytest.raises(Transient, match="answers with 503"):
        world.infrastructure.list("one")
    world.faults.status = 0
    assert world.infrastructure.list("one") == (machine,)


def test_a_shape_larger_than_any_host_is_told(world: IronicWorld) -> None:
    with pytest.raises(InsufficientCapacity, match="alpha: it has 16 cpus, and the shape 99"):
        replace(world.infrastructure, need=Need(99, 64)).create(a_request("one"))


def test_a_wrong_password_is_told_with_the_file(ironic_server: Server, tmp_path: Path) -> None:
    clouds = tmp_path / "clouds.yaml"
    location = IronicLocation(CLOUD, str(clouds))
    write_clouds(clouds, ironic_server.url, "horse")
    with pytest.raises(
        Permanent, match=r"does not take the user and the password in .*/clouds.yaml"
    ) as raised:
        location.open().hosts()
    assert "horse" not in str(raised.value)
    write_clouds(clouds, ironic_server.url)
    ironic = location.open()
    assert list(ironic.hosts()) == []
    assert ironic.deploy_interfaces() == {"redfish": {"direct", "ramdisk"}}


def test_a_host_is_enrolled_inspected_and_provided_and_forgotten_when_nobody_has_it(
    ironic_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Systems have UUIDs here, by which sushy-tools keeps their disks; it has none."""
    from tests.infrastructures.metal import bmcs

    system = str(uuid.uuid4())
    service = import_module("sushy_tools.emulator.main").app
    monkeypatch.setitem(service.config, "SUSHY_EMULATOR_STORAGE", {system: []})
    api = IronicLocation(CLOUD, str(ironic_server.clouds_file)).open()
    with bmcs.bmcs(system) as made:
        mac = made.entry(system).mac
        told = {
            "redfish_address": made.url,
            "redfish_system_id": bmcs.ROOT + system,
            "redfish_username": bmcs.USER,
            "redfish_password": "wrong",
        }
        entry = Enrolment("one", "delta", mac, "cpu", ("CUSTOM_A",), "data")
        with pytest.raises(Permanent, match=r"the host delta: Ironic says of it, enroll: .*401"):
            enrol(api, entry, told, patiently)
        told |= {"redfish_password": bmcs.PASSWORD}
        host = enrol(api, entry, told, patiently)
        assert (host.state, host.cpus, host.memory_mib) == ("available", 16, 64 * 1024)
        assert (host.resource_class, host.traits) == ("cpu", ("CUSTOM_A",))
        (known,) = api.hosts()
        assert [(port.mac, port.physical_network) for port in known.ports] == [(mac, "data")]
        # It is there already, for another stack as well, which does not have it forgotten.
        assert enrol(api, entry, told, patiently).uuid == host.uuid
        assert enrol(api, replace(entry, stack="two"), told, patiently).uuid == host.uuid
        delete_host(api, "delta", "two", patiently)
        claim = Claim("two", "cpu-1", str(uuid.uuid4()))
        api.claim(host.uuid, claim, {})
        with pytest.raises(Permanent, match="the host delta is the node cpu-1 of the stack two"):
            delete_host(api, "delta", "one", patiently)
        api.release(host.uuid)
        for _ in range(2):
            delete_host(api, "delta", "one", patiently)
        assert list(api.hosts()) == []


def patiently(_: str) -> bool:
    time.sleep(0.2)
    return True
