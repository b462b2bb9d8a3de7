"""The plugin of libvirt's types: what it takes, what replaces, its errors, and by a real libvirtd what it makes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.libvirt.daemon import SOFTWARE, Host, a_host, missing
from tests.infrastructures.libvirt.graph import DOMAIN, NETWORK, POOL, SEED, VOLUME, registered
from tests.infrastructures.libvirt.imaging import IMAGES, an_imaging, keeps_the_contract
from tests.infrastructures.libvirt.specs import TUNED, spec
from tests.infrastructures.libvirt.suspension import a_suspension
from tests.infrastructures.libvirt.suspension import (
    keeps_the_contract as keeps_the_contract_of_suspension,
)
from tests.plugins.calls import plugin_calls
from tests.plugins.libvirt import KINDS
from tests.provider.calls import Called, plainly
from tidepool.cluster.failures import InsufficientCapacity
from tidepool.infrastructures.libvirt.ask import kind_of, output_of, patient_virsh, virsh
from tidepool.resources.kind import Refusal

NOWHERE = "qemu+tcp://nowhere/system"
MAC = "02:00:0A:50:01:01"

DISK: Mapping[str, Any] = {"name": "cpu-1.qcow2", "pool": "tidepool-dev", "size": 1 << 26}
MACHINE: Mapping[str, Any] = {
    "name": "dev-cpu-1",
    "type": "qemu",
    "arch": "x86_64",
    "machine": "q35",
    "cpu": {"mode": "maximum"},
    "memory": 64,
    "disks": [{"volumeId": "/nowhere/cpu-1.qcow2"}],
    "networkInterfaces": [{"networkName": "tidepool-dev", "mac": MAC, "addresses": ["10.80.1.1"]}],
}
SHEET = '<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">{}</xsl:stylesheet>'


def calls(token: str, uri: str = NOWHERE) -> Called:
    return plugin_calls(KINDS, token, uri=uri)


@pytest.mark.parametrize("token", KINDS)
@pytest.mark.parametrize("place", [{}, {"bridge": "br0"}], ids=["own network", "bridge"])
def test_it_takes_all_that_the_graph_gives(token: str, place: dict[str, Any]) -> None:
    graph = registered(spec(TUNED, **place), {"cpu": "cpu-[1-2]"})
    resources = graph.of_type(token).values()
    assert resources
    for each in resources:
        assert calls(token).failures(each.inputs) == {}


def test_it_refuses_what_it_does_not_know() -> None:
    wrong = {**MACHINE, "qemuAgent": True, "cpu": {"modle": "maximum"}, "vcpu": "two"}
    said = calls(DOMAIN).failures(wrong)
    assert {*said} == {"qemuAgent", "cpu.modle", "cpu.mode", "vcpu"}
    assert calls(NETWORK).failures({"name": "n", "mode": "route"}) == {
        "mode": "it is 'route'; allowed are 'none', 'nat', 'bridge'"
    }


needs_libvirtd = pytest.mark.skipif(bool(missing(file_server=True)), reason=missing(file_server=True))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with a_host(tmp_path_factory.mktemp("host") / "h") as it:
        yield it


@pytest.fixture
def pool(host: Host, tmp_path: Path) -> Iterator[str]:
    """A folder of volumes, and nothing left of it."""
    asked = calls(POOL, host.uri)
    inputs = {"name": "tidepool-dev", "type": "dir", "target": {"path": str(tmp_path / "pool")}}
    made = asked.create(inputs)
    with pytest.raises(Refusal, match="storage pool 'tidepool-dev' already exists"):
        asked.create(inputs)
    id = str(made.resource_id)
    assert is_there(asked, id, inputs)
    yield "tidepool-dev"
    asked.delete(id, inputs)
    assert not is_there(asked, id, inputs)
    assert not (tmp_path / "pool").exists()


def is_there(asked: Called, id: str, inputs: Mapping[str, Any]) -> bool:
    return bool(asked.read(id, inputs, inputs).resource_id)


def domains(host: Host) -> list[str]:
    return output_of(virsh, host.uri, "list", "--all", "--name").split()


@pytest.mark.slow
@needs_libvirtd
@pytest.mark.runs("libvirt", SOFTWARE)
def test_a_domain_that_was_stopped_from_outside_is_seen_and_started(host: Host, pool: str) -> None:
    disks, machines = calls(VOLUME, host.uri), calls(DOMAIN, host.uri)
    disk = str(disks.create(DISK).resource_id)
    # A title, which the package has no field for, and no interface: this host has no network.
    title = (
        '<xsl:template match="@*|node()"><xsl:copy><xsl:apply-templates select="@*|node()"/></xsl:copy>'
        '</xsl:template><xsl:template match="/domain/name"><xsl:copy-of select="."/><title>it</title>'
        '</xsl:template><xsl:template match="/domain/devices/graphics"/>'
    )
    inputs = {
        **MACHINE,
        "disks": [{"volumeId": disk}],
        "networkInterfaces": [],
        "xml": {"xslt": SHEET.format(title)},
    }
    id = str(machines.create(inputs).resource_id)
    told = output_of(virsh, host.uri, "dumpxml", "dev-cpu-1")
    assert "<title>it</title>" in told
    assert "volume='cpu-1.qcow2'" in told
    # Another attempt does not take the one that is there for its own.
    with pytest.raises(Refusal, match=r"error defining libvirt domain: .*already exists with uuid"):
        machines.create(inputs)

    assert "running" not in plainly(machines.read(id, inputs, inputs).inputs)
    output_of(virsh, host.uri, "destroy", "dev-cpu-1")
    seen = plainly(machines.read(id, inputs, inputs).inputs)
    assert seen["running"] is False
    change = machines.diff(seen, inputs)
    assert (change.changes, change.replaces) == (True, [])
    machines.update(id, seen, inputs)
    assert output_of(virsh, host.uri, "domstate", "dev-cpu-1").strip() == "running"

    machines.delete(id, inputs)
    assert not is_there(machines, id, inputs)
    disks.delete(disk, DISK)
    assert not is_there(disks, disk, DISK)
    assert domains(host) == []


@pytest.mark.slow
@needs_libvirtd
@pytest.mark.runs("libvirt", SOFTWARE)
def test_a_machine_that_is_made_anew_from_another_image_is_the_same_to_the_plugin(
    host: Host, pool: str
) -> None:
    disks, machines = calls(VOLUME, host.uri), calls(DOMAIN, host.uri)
    images = {name: {**DISK, "name": name} for name in IMAGES.values()}
    made = {name: str(disks.create(inputs).resource_id) for name, inputs in images.items()}
    wanted = {**DISK, "baseVolumeName": IMAGES["slurm"], "baseVolumePool": pool}
    disk = str(disks.create(wanted).resource_id)
    inputs = {**MACHINE, "disks": [{"volumeId": disk}], "networkInterfaces": []}
    id = str(machines.create(inputs).resource_id)
    imaging = an_imaging(host.uri, virsh)
    keeps_the_contract(imaging)
    imaging.image("kubernetes")
    for asked, one, given in ((disks, disk, wanted), (machines, id, inputs)):
        seen = asked.read(one, given, given)
        assert seen.resource_id == one
        assert not asked.diff(plainly(seen.inputs), given).changes
    machines.delete(id, inputs)
    disks.delete(disk, wanted)
    for name, one in made.items():
        disks.delete(one, images[name])


@pytest.mark.slow
@needs_libvirtd
@pytest.mark.runs("libvirt", SOFTWARE)
def test_a_machine_that_is_suspended_is_as_the_graph_says_to_the_plugin(host: Host, pool: str) -> None:
    disks, machines = calls(VOLUME, host.uri), calls(DOMAIN, host.uri)
    disk = str(disks.create(DISK).resource_id)
    runs = {**MACHINE, "disks": [{"volumeId": disk}], "networkInterfaces": [], "autostart": True}
    id = str(machines.create(runs).resource_id)
    suspension = a_suspension(host.uri, virsh, patient_virsh)
    keeps_the_contract_of_suspension(suspension)

    # As the graph says it, and then as it is done: the plugin takes it for one that runs until it is looked at.
    kept = {**runs, "autostart": False, "running": False}
    machines.update(id, runs, kept)
    suspension.suspend()
    (file,) = host.folder.glob("lib/qemu/save/*.save")
    assert file.stat().st_mode & 0o777 == 0o600
    seen = plainly(machines.read(id, kept, kept).inputs)
    assert not machines.diff(seen, kept).changes
    # The plugin itself starts it when it goes on, from its memory.
    assert machines.diff(seen, runs).changes
    machines.update(id, seen, runs)
    assert suspension.state() == "running"
    assert not file.exists()

    # A file that is lost, and one that was not written to its end, are none, though libvirt tells of one.
    for spoil in (Path.unlink, lambda path: path.write_bytes(b"half")):
        suspension.suspend()
        spoil(file)
        assert suspension.state() == "stopped"
        file.unlink(missing_ok=True)
        suspension.resume()
        assert suspension.state() == "running"

    # With the machine its memory goes.
    suspension.suspend()
    machines.delete(id, kept)
    assert not file.exists()
    disks.delete(disk, DISK)
    assert domains(host) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk that has no room for any machine's memory; hosts that start later see it."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
@needs_libvirtd
@pytest.mark.runs("libvirt", SOFTWARE)
def test_a_disk_that_is_full_while_memory_is_saved_is_told_of_and_the_machine_runs_on(
    small_disk: Path, tmp_path: Path
) -> None:
    with a_host(tmp_path / "h") as full:
        machines = calls(DOMAIN, full.uri)
        id = str(machines.create({**MACHINE, "disks": [], "networkInterfaces": []}).resource_id)
        saves = full.folder / "lib/qemu/save"
        saves.rmdir()
        saves.symlink_to(small_disk)
        suspension = a_suspension(full.uri, virsh, patient_virsh)
        with pytest.raises(InsufficientCapacity, match="No space left on device"):
            suspension.suspend()
        assert suspension.state() == "running"
        assert list(small_disk.iterdir()) == []
        machines.delete(id, MACHINE)


@pytest.mark.slow
@needs_libvirtd
@pytest.mark.runs("libvirt", SOFTWARE)
def test_a_host_that_is_full_is_told_of_and_the_domain_stays_defined(tmp_path: Path) -> None:
    # However freely the kernel promises memory: a process of this host's has no more addresses.
    bounded = ("prlimit", f"--as={16 << 30}", "unshare", "--net", "--")
    much = {**MACHINE, "memory": 32 << 10, "disks": [], "networkInterfaces": []}
    with a_host(tmp_path / "h", bounded) as full:
        with pytest.raises(
            Refusal, match=r"error creating libvirt domain: .*Cannot allocate memory"
        ) as raised:
            calls(DOMAIN, full.uri).create(much)
        assert kind_of(str(raised.value)) is InsufficientCapacity
        assert domains(full) == ["dev-cpu-1"]


@pytest.mark.slow
@needs_libvirtd
@pytest.mark.runs("libvirt", SOFTWARE)
def test_a_seed_and_disks_are_volumes_of_a_pool(host: Host, pool: str, tmp_path: Path) -> None:
    seeds, disks = calls(SEED, host.uri), calls(VOLUME, host.uri)
    seed = {
        "name": "ctl-seed.iso",
        "pool": pool,
        "userData": "#cloud-config",
        "metaData": "",
        "networkConfig": "",
    }
    made = seeds.create(seed)
    path, _, other = str(made.resource_id).partition(";")
    assert other
    assert b"#cloud-config" in Path(path).read_bytes()
    assert Path(path).stat().st_mode & 0o777 == 0o644
    base = disks.create({**DISK, "name": "base.qcow2"})
    thin = {**DISK, "baseVolumeName": "base.qcow2", "baseVolumePool": pool}
    with pytest.raises(Refusal, match=r"it shouldn't\nbe smaller than the backing store"):
        disks.create({**thin, "size": 1 << 20})
    over = disks.create(thin)
    assert "base.qcow2" in output_of(virsh, host.uri, "vol-dumpxml", str(over.resource_id))
    for asked, one, inputs in ((disks, over, thin), (disks, base, DISK), (seeds, made, seed)):
        asked.delete(str(one.resource_id), inputs)
        # What is gone already is no error.
        asked.delete(str(one.resource_id), inputs)
