"""A machine that comes back from the dead is not taken for its successor: it is another one, by the infrastructure's own id."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.infrastructures.conftest import a_request
from tests.infrastructures.libvirt.daemon import Host, a_host
from tests.infrastructures.libvirt.fake import FakeHost, FakeHosts
from tests.infrastructures.libvirt_world import Made, on_libvirtd
from tests.infrastructures.local.stacks import Stack, left_of
from tests.infrastructures.this_machine import ThisMachine
from tests.machine_faults import pull_plug
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.libvirt.ask import Virsh, virsh
from tidepool.infrastructures.libvirt.machines import Machines
from tidepool.infrastructures.local.kernel.layout import machine_paths
from tidepool.scaling.cluster_state import Recorded


def test_on_this_machine_a_late_deletion_spares_the_successor_and_an_old_disk_is_not_its(
    data: Path, image: Path, tmp_path: Path
) -> None:
    stack = Stack(data, f"t{uuid.uuid4().hex[:8]}", image)
    there = ThisMachine(data, image)
    try:
        stack.network()
        first = there.create(a_request(stack.name))
        place = machine_paths(data, stack.name, "cpu-1").folder
        pull_plug(data, stack.name, "cpu-1")
        place.rename(tmp_path / "kept")
        there.delete(first.key)
        second = there.create(a_request(stack.name))
        there.delete(first.key)
        assert there.list(stack.name) == (second,), "it serves"
        # Somebody puts the old disk back where the successor's was.
        pull_plug(data, stack.name, "cpu-1")
        shutil.rmtree(place)
        (tmp_path / "kept").rename(place)
        assert there.read(second.key) is None
        (back,) = there.list(stack.name)
        assert back.key == first.key
        assert there.create(a_request(stack.name)).key == first.key, "its id outlives a boot"
        there.delete(second.key)
        assert len(there.list(stack.name)) == 1
    finally:
        stack.delete_all()
    assert left_of(stack) == []


def test_a_host_of_libvirt_that_is_back_has_an_old_machine_which_goes_and_its_successor_stays() -> None:
    comes_back(
        {"alpha": "qemu+ssh://root@alpha/system", "beta": "qemu+ssh://root@beta/system"},
        FakeHosts(alpha=FakeHost(), beta=FakeHost()),
    )


@pytest.mark.slow
def test_the_same_with_two_real_hosts(libvirtd: Host, tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()
    (tmp_path / "other").mkdir()
    with (
        on_libvirtd(libvirtd, tmp_path / "pool"),
        a_host(tmp_path / "h") as other,
        on_libvirtd(other, tmp_path / "other"),
    ):
        comes_back({"alpha": libvirtd.uri, "beta": other.uri}, virsh)


def comes_back(hosts: Mapping[str, str], ask: Virsh) -> None:
    """A node's machine is on alpha, which is lost; the next one is on beta, and then alpha is back."""
    alpha, beta = (Made({name: uri}, ask) for name, uri in hosts.items())
    first = alpha.create(a_request("one"))
    second = beta.create(a_request("one"))
    everywhere = Machines(hosts, ask)
    seen = everywhere.list("one")
    assert {each.machine_id for each in seen} == {first.machine_id, second.machine_id}
    record = Recorded(machine=True, infrastructure="libvirt", machine_id=second.machine_id)
    assert record.own_machines(seen) == [second]
    everywhere.delete(first.key)
    assert everywhere.list("one") == (second,)
    everywhere.delete(MachineKey("one", "cpu-1"))
    assert everywhere.list("one") == ()
