"""The kinds of pulumi-libvirt's types that the graph uses, by virsh, each by the steps of the real plugin."""

from __future__ import annotations

import json
import subprocess
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from tests.plugins.libvirt.host import Host
from tests.plugins.libvirt.models import (
    CloudInitDisk,
    CloudInitDiskModel,
    Domain,
    DomainModel,
    Network,
    NetworkModel,
    Pool,
    PoolModel,
    Volume,
    VolumeModel,
)
from tests.plugins.libvirt.xml import (
    Stored,
    domain_xml,
    network_xml,
    pool_xml,
    reservation_xml,
    seed_path,
    volume_xml,
)
from tests.plugins.serving import Configuration
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Refusal, Task
from tidepool.resources.model import Model
from tidepool.resources.reading import Change
from tidepool.resources.values import Inputs, Plain

M = TypeVar("M", bound=Model)


#: A change within these, with as many members as before, is one in place, though others of them replace.
_IN_PLACE: Final = frozenset({"cpu", "dhcp", "disks"})


class LibvirtKind(Kind[M]):
    """A kind of things on the host that the provider is configured for."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(Home(Path(), Path()))
        self._host = Host(str(configuration["uri"]))

    def diff(self, old: Inputs, new: Inputs) -> tuple[Change, ...]:
        def in_place(key: str) -> bool:
            before, after = old.get(key), new.get(key)
            if key not in _IN_PLACE or not before or not after:
                return False
            return not isinstance(before, list) or not isinstance(after, list) or len(before) == len(after)

        found = super().diff(old, new)
        return tuple(replace(each, replaces=False) if in_place(each.key) else each for each in found)


class PoolKind(LibvirtKind[PoolModel]):
    resource = Pool

    def create(self, wanted: PoolModel, task: Task) -> Made:
        do, name = self._host.do, wanted.name
        if name in self._host.list("pool-list", "--all", "--name"):
            raise Refusal(f"storage pool '{name}' already exists")
        do("error creating libvirt storage pool", "pool-define", "/dev/stdin", stdin=pool_xml(wanted))
        do("error building libvirt storage pool", "pool-build", name)
        do("error setting up libvirt storage pool", "pool-autostart", name)
        do("error starting libvirt storage pool", "pool-start", name)
        return Made(do("error retrieving libvirt pool id", "pool-uuid", name))

    def look(self, id: str, state: PoolModel) -> Mapping[str, Plain] | None:
        return AS_KNOWN if id in self._host.list("pool-list", "--all", "--uuid") else None

    def delete(self, id: str, state: PoolModel, task: Task) -> None:
        do, failed = self._host.do, "error deleting storage pool"
        if id not in self._host.list("pool-list", "--all", "--uuid"):
            return
        if id in self._host.list("pool-list", "--uuid"):
            do(failed, "pool-destroy", id)
        do(failed, "pool-delete", id)
        do(failed, "pool-undefine", id)


class NetworkKind(LibvirtKind[NetworkModel]):
    resource = Network

    def create(self, wanted: NetworkModel, task: Task) -> Made:
        do, name = self._host.do, wanted.name
        if wanted.mode == "bridge" and not wanted.bridge:
            raise Refusal("'bridge' must be provided when using the bridged network mode")
        do("error defining libvirt network", "net-define", "/dev/stdin", stdin=network_xml(wanted))
        try:
            do("error creating libvirt network", "net-start", name)
        except Refusal:
            do("error undefining libvirt network", "net-undefine", name)
            raise
        id = do("error retrieving libvirt network", "net-uuid", name)
        if wanted.autostart:
            self._set_autostart(id, wanted)
        return Made(id)

    def update(self, id: str, old: NetworkModel, wanted: NetworkModel, task: Task) -> Mapping[str, Plain]:
        if id not in self._host.list("net-list", "--uuid"):
            self._host.do(f"error when activating network {wanted.name} during update", "net-start", id)
        self._set_autostart(id, wanted)
        return {}

    def look(self, id: str, state: NetworkModel) -> Mapping[str, Plain] | None:
        return AS_KNOWN if id in self._host.list("net-list", "--all", "--uuid") else None

    def delete(self, id: str, state: NetworkModel, task: Task) -> None:
        if id in self._host.list("net-list", "--uuid"):
            self._host.do("when destroying libvirt network", "net-destroy", id)
        self._host.do("couldn't undefine libvirt network", "net-undefine", id)

    def _set_autostart(self, id: str, wanted: NetworkModel) -> None:
        failed = "error setting autostart for network"
        self._host.do(failed, "net-autostart", id, *(() if wanted.autostart else ("--disable",)))


class VolumeKind(LibvirtKind[VolumeModel]):
    resource = Volume

    def create(self, wanted: VolumeModel, task: Task) -> Made:
        do = self._host.do
        if wanted.source:
            format, size, base = wanted.format or "qcow2", self._size_of_source(wanted), None
        else:
            base = self._base(wanted)
            format, size = wanted.format or "qcow2", wanted.size or (base.capacity if base else 1)
        if base is not None and size < base.capacity:
            raise Refusal("when 'size' is specified, it shouldn't\nbe smaller than the backing store")
        if wanted.name not in do("can't find volumes", "vol-list", wanted.pool).split():
            made = volume_xml(wanted.name, format, size, base)
            do("error creating libvirt volume", "vol-create", wanted.pool, "/dev/stdin", stdin=made)
        if wanted.source:
            failed = f"error while uploading source {wanted.source}"
            do(failed, "vol-upload", "--pool", wanted.pool, wanted.name, wanted.source)
        return Made(do("error looking up libvirt volume", "vol-key", "--pool", wanted.pool, wanted.name))

    def look(self, id: str, state: VolumeModel) -> Mapping[str, Plain] | None:
        return AS_KNOWN if self._host.has_volume(id) else None

    def delete(self, id: str, state: VolumeModel, task: Task) -> None:
        self._host.delete_volume(id)

    def _size_of_source(self, wanted: VolumeModel) -> int:
        """The disk's, which is more than the file has."""
        for word, given in (("size", wanted.size), ("base_volume_name", wanted.base_volume_name)):
            if given:
                raise Refusal(f"'{word}' can't be specified when also 'source' is given")
        command = ["qemu-img", "info", "--output=json", wanted.source]
        told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        if told["format"] == "qcow2" and wanted.format not in ("", "qcow2"):
            raise Refusal(
                "format other than QCOW2 explicitly specified for image detected as QCOW2 image: "
                + wanted.source
            )
        return int(told["virtual-size"])

    def _base(self, wanted: VolumeModel) -> Stored | None:
        name = wanted.base_volume_name
        if not name:
            return None
        failed = f"can't retrieve base volume with name '{name}'"
        return self._host.volume(failed, name, wanted.base_volume_pool or wanted.pool)


class CloudInitDiskKind(LibvirtKind[CloudInitDiskModel]):
    resource = CloudInitDisk

    def create(self, wanted: CloudInitDiskModel, task: Task) -> Made:
        do, place = self._host.do, ("--pool", wanted.pool, wanted.name)
        files = {
            "user-data": wanted.user_data,
            "meta-data": wanted.meta_data,
            "network-config": wanted.network_config,
        }
        with TemporaryDirectory() as folder:
            for name, text in files.items():
                Path(folder, name).write_text(text)
            seed = Path(folder, "seed.iso")
            labelled = ("-output", str(seed), "-volid", "cidata", "-joliet", "-rock")
            subprocess.run(
                ["mkisofs", "-quiet", *labelled, *files], cwd=folder, check=True, capture_output=True
            )
            made = volume_xml(wanted.name, "raw", seed.stat().st_size)
            failed = f"error creating libvirt volume for cloudinit device {wanted.name}"
            do(failed, "vol-create", wanted.pool, "/dev/stdin", stdin=made)
            do(f"error while uploading cloudinit {wanted.name}", "vol-upload", *place, str(seed))
        return Made(f"{do('error retrieving volume key', 'vol-key', *place)};{uuid.uuid4()}")

    def look(self, id: str, state: CloudInitDiskModel) -> Mapping[str, Plain] | None:
        return AS_KNOWN if self._host.has_volume(seed_path(id)) else None

    def delete(self, id: str, state: CloudInitDiskModel, task: Task) -> None:
        self._host.delete_volume(seed_path(id))


class DomainKind(LibvirtKind[DomainModel]):
    resource = Domain

    def create(self, wanted: DomainModel, task: Task) -> Made:
        do, name = self._host.do, wanted.name
        disks = [each.block_device or self._volume(each.volume_id) for each in wanted.disks]
        if wanted.cloudinit:
            self._volume(seed_path(wanted.cloudinit))
        self._reserve(wanted)
        xml = domain_xml(wanted, disks)
        do("error defining libvirt domain", "define", "/dev/stdin", stdin=xml)
        if wanted.autostart:
            do("error setting autostart for domain", "autostart", name)
        # One that does not start stays defined, and nobody has its id: so the real plugin leaves it.
        do("error creating libvirt domain", "start", name)
        return Made(do("error retrieving libvirt domain", "domuuid", name))

    def refuse_update(self, old: DomainModel, wanted: DomainModel) -> None:
        if old.cloudinit != wanted.cloudinit:
            raise Refusal("this plugin of the tests changes no seed of a domain: the graph does not either")

    def update(self, id: str, old: DomainModel, wanted: DomainModel, task: Task) -> Mapping[str, Plain]:
        if id not in self._host.list("list", "--uuid"):
            self._host.do("error creating libvirt domain", "start", id)
        if old.autostart != wanted.autostart:
            disable = () if wanted.autostart else ("--disable",)
            self._host.do("error setting autostart for domain", "autostart", id, *disable)
        if old.network_interfaces != wanted.network_interfaces:
            self._reserve(wanted)
        return {}

    def look(self, id: str, state: DomainModel) -> Mapping[str, Plain] | None:
        if id not in self._host.list("list", "--all", "--uuid"):
            return None
        running = id in self._host.list("list", "--uuid")
        return AS_KNOWN if running is state.running else {"running": running}

    def delete(self, id: str, state: DomainModel, task: Task) -> None:
        if id in self._host.list("list", "--uuid"):
            self._host.do("couldn't destroy libvirt domain", "destroy", id)
        flags = ("--nvram", "--managed-save", "--snapshots-metadata", "--checkpoints-metadata")
        self._host.do("couldn't undefine libvirt domain with flags", "undefine", id, *flags)

    def _volume(self, key: str) -> Stored:
        return self._host.volume(f"can't retrieve volume {key}", key)

    def _reserve(self, wanted: DomainModel) -> None:
        """The addresses of its interfaces, in those networks that have DHCP."""
        for interface in wanted.network_interfaces:
            network = interface.network_name
            told = self._host.do(f"can't retrieve network '{network}'", "net-dumpxml", network)
            if not _has_dhcp(told):
                continue
            for address in interface.addresses:
                host = reservation_xml(interface, address)
                flags = ("ip-dhcp-host", host, "--live", "--config")
                failed = f"error reserving {address} in network {network}"
                try:
                    self._host.do(failed, "net-update", network, "modify", *flags)
                except Refusal as refused:
                    if "Requested operation is not valid" not in str(refused):
                        raise
                    self._host.do(failed, "net-update", network, "add-last", *flags)


def _has_dhcp(network: str) -> bool:
    """Whether libvirt itself gives out the addresses of a network, by its XML."""
    forward = ET.fromstring(network).find("forward")
    return forward is None or forward.get("mode") in ("nat", "route", "open")
