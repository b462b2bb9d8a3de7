"""Machines whose roots are on disks of their hosts: written when a host is claimed, wiped before it is anybody else's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import versions
from tests.infrastructures.boot_media.test_installer import written
from tests.infrastructures.boot_media.test_media import iso  # noqa: F401 - a fixture
from tests.infrastructures.metal.disk_hosts import NAMES, DiskHosts, a_task, disk_hosts
from tests.repository import ROOT
from tidepool.cluster.failures import InfrastructureError, Transient
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.boot_media.guest import installer
from tidepool.infrastructures.metal.machine import Hosts
from tidepool.infrastructures.metal.machines import MetalMachines
from tidepool.infrastructures.metal.published import Published
from tidepool.infrastructures.metal.resting import Failures
from tidepool.resources.kind import Unfinished

pytestmark = [
    pytest.mark.runs("metal", versions.installed("sushy"), f"Redfish of {versions.installed('sushy-tools')}")
]


@pytest.fixture
def hosts(tmp_path: Path, iso: Path) -> Iterator[DiskHosts]:  # noqa: F811
    with disk_hosts(tmp_path, iso) as made:
        yield made


def test_a_disk_is_written_booted_from_and_wiped_when_its_host_is_given_back(hosts: DiskHosts) -> None:
    wanted = hosts.machine()
    made = hosts.kind().create(wanted, a_task())
    assert hosts.kind().create(wanted, a_task()) == made
    assert hosts.claims() == {"alpha": f"tidepool:one/cpu-1/{made.id.partition('/')[2]}/disk"}
    assert hosts.booted == [("alpha", "install"), ("alpha", "disk")]
    assert hosts.bmcs.system("alpha")["boot_image"]["Cd"][0] is None
    on_it = written(hosts.disk("alpha"))
    assert on_it.startswith(b"EFI PART")
    # Who it is, is in its root.
    assert b'"node": "cpu-1"' in on_it
    hosts.kind().delete(made.id, wanted, a_task())
    assert hosts.booted[2:] == [("alpha", "wipe")]
    assert not any(hosts.disk("alpha").read_bytes())
    assert (hosts.claims(), hosts.bmcs.system("alpha")["power_state"]) == ({}, "Off")


def test_a_host_that_loses_its_power_while_its_disk_is_written_goes_on(hosts: DiskHosts) -> None:
    hosts.cut["alpha"] = 64 << 20
    hosts.kind().create(hosts.machine(), a_task())
    assert hosts.booted == [("alpha", "install"), ("alpha", "install"), ("alpha", "disk")]
    assert b'"node": "cpu-1"' in hosts.disk("alpha").read_bytes()


def test_a_disk_with_somebodys_data_costs_no_node_and_its_host_is_left_alone_for_a_while(
    hosts: DiskHosts,
) -> None:
    hosts.disk("alpha").write_bytes(b"somebody's".ljust(80 << 20, b"\0"))
    made = hosts.kind().create(hosts.machine(), a_task())
    assert made.id.startswith("beta/")
    # Nothing was written, so nothing is wiped.
    assert hosts.booted == [("alpha", "install"), ("beta", "install"), ("beta", "disk")]
    assert hosts.disk("alpha").read_bytes().startswith(b"somebody's")
    why = Failures(hosts.kept).resting()["alpha"]
    assert "it failed once, and is left alone until" in why
    assert "has data that are not ours" in why
    hosts.kind().delete(made.id, hosts.machine(), a_task())
    with pytest.raises(InfrastructureError, match=r"alpha: it failed once.*rm /.*alpha\.json"):
        hosts.kind().create(hosts.machine(hosts=("alpha",)), a_task())
    # A person allows it, for that disk, and has it taken again.
    (hosts.kept.folder / "failures" / "alpha.json").unlink()
    allowed = hosts.machine(hosts=("alpha",), disk={"serial": "of-alpha", "overwrite": True})
    assert hosts.kind().create(allowed, a_task()).id.startswith("alpha/")
    assert Failures(hosts.kept).resting() == {}


def test_what_takes_longer_than_its_operation_is_gone_on_with_by_the_next(hosts: DiskHosts) -> None:
    hosts.cut["alpha"] = 0
    hosts.bmcs.driver.on_power = lambda host, state: None
    with pytest.raises(Unfinished, match="its task is not over yet: install") as raised:
        hosts.kind().create(hosts.machine(), a_task(2.2))
    assert hosts.claims()
    # The host has hung: somebody cuts its power.
    hosts.bmcs.driver.on_power = hosts.power
    hosts.bmcs.change("alpha", power_state="Off")
    assert hosts.kind().create(hosts.machine(), a_task()).id == raised.value.id


def test_a_host_is_nobodys_before_its_disk_is_wiped(hosts: DiskHosts) -> None:
    wanted = hosts.machine()
    made = hosts.kind().create(wanted, a_task())
    hosts.bmcs.driver.on_power = lambda host, state: None
    with pytest.raises(Transient, match="not over yet: wipe"):
        hosts.kind().delete(made.id, wanted, a_task(2.2))
    assert hosts.claims()
    # The scaler, too, has it wiped, by what is kept here; who has nothing kept, leaves it as it is.
    key = MachineKey("one", "cpu-1")
    hosts.bmcs.driver.on_power = hosts.power
    hosts.bmcs.change("alpha", power_state="Off")
    the_scalers(hosts).delete(key)
    assert not any(hosts.disk("alpha").read_bytes())
    assert hosts.claims() == {}


def test_a_wipe_that_failed_is_told_and_tried_again(
    hosts: DiskHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = hosts.machine()
    made = hosts.kind().create(wanted, a_task())
    with monkeypatch.context() as patch:
        patch.setattr(installer, "wipe", lambda *_: (_ for _ in ()).throw(installer.Refused("it is broken")))
        for _ in range(2):
            with pytest.raises(
                Transient, match="its disk was not wiped: it is broken; the host stays claimed"
            ):
                hosts.kind().delete(made.id, wanted, a_task())
    assert hosts.claims()
    hosts.kind().delete(made.id, wanted, a_task())
    assert (hosts.claims(), hosts.booted[2:]) == ({}, [("alpha", "wipe")] * 3)
    assert not any(hosts.disk("alpha").read_bytes())


def test_who_does_not_know_what_a_host_boots_leaves_its_disk_to_who_does(hosts: DiskHosts) -> None:
    wanted = hosts.machine()
    made = hosts.kind().create(wanted, a_task())
    hosts.kept.remove("alpha")
    with pytest.raises(Transient, match="what the host alpha boots is not known on this machine"):
        the_scalers(hosts).delete(MachineKey("one", "cpu-1"))
    assert hosts.claims()
    hosts.kind().delete(made.id, wanted, a_task())
    assert not any(hosts.disk("alpha").read_bytes())


@pytest.mark.parametrize("on_disk", [False, True])
def test_who_is_killed_at_any_step_is_gone_on_with_and_no_second_host_is_claimed(
    hosts: DiskHosts, on_disk: bool
) -> None:
    """By kill -9, right before a BMC does what it is told, and right after; until one comes through."""
    wanted = hosts.machine(**({} if on_disk else {"disk_image": ""}))
    command = [sys.executable, "-m", "tests.infrastructures.metal.creating"]
    command += [str(hosts.data), str(hosts.iso), wanted.disk_image]
    step, came_through = 0, False
    while not came_through:
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as it:
            left = iter(range(step, -1, -1))

            def kill(_: str, it: subprocess.Popen[str] = it, left: Iterator[int] = left) -> None:
                if next(left, None) == 0:
                    it.kill()
                    it.wait()

            hosts.bmcs.on_change = kill
            made, _ = it.communicate()
        came_through, step = it.returncode == 0, step + 1
        assert len(hosts.claims()) <= 1, hosts.claims()
    assert step >= 4
    # What was begun by one that was killed is the same machine.
    hosts.bmcs.on_change = lambda _: None
    assert hosts.kind().create(wanted, a_task()).id == made
    assert hosts.booted[-1] == ("alpha", "disk" if on_disk else "memory")
    hosts.kind().delete(made, wanted, a_task())
    assert (hosts.claims(), hosts.bmcs.system("alpha")["power_state"]) == ({}, "Off")
    assert not any(hosts.disk("alpha").read_bytes())


def the_scalers(hosts: DiskHosts) -> MetalMachines:
    """The machines as the scaler has them: by the spec, and by what is kept on this machine."""
    entries = {host: hosts.bmcs.entry(host) for host in NAMES}
    return MetalMachines(Hosts(entries, Published(hosts.kept)), delete_s=900, again_s=0.02)
