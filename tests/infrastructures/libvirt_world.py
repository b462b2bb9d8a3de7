"""Hosts that run libvirt as a world of the contract: what is found and deleted is the package's, and here it is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.infrastructures.libvirt.daemon import Host
from tidepool.cluster import addresses
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.libvirt.ask import LibvirtError, kind_of, output_of, virsh
from tidepool.infrastructures.libvirt.domain import Identity, pool_of
from tidepool.infrastructures.libvirt.machines import Machines
from tidepool.simulation.machines import MachineRequest

#: The least that libvirt starts, with what tells whose it is: an emulated machine that has no program.
DOMAIN = """\
<domain type="qemu">
  <name>{name}</name>
  <metadata>{identity}</metadata>
  <memory unit="MiB">{memory_mib}</memory>
  {backing}
  <vcpu>1</vcpu>
  <os><type arch="x86_64" machine="q35">hvm</type></os>
  <devices>
    <disk type="volume" device="disk">
      <driver name="qemu" type="qcow2"/>
      <source pool="{pool}" volume="{node}.qcow2"/>
      <target dev="vda" bus="virtio"/>
    </disk>
    <interface type="{link}"><mac address="{mac}"/><model type="virtio"/></interface>
  </devices>
</domain>
"""


@dataclass(frozen=True, slots=True)
class Made(Machines):
    """Machines of the first host, made by the steps of the plugin: a volume, a domain, and its start."""

    hugepages: bool = False
    link: str = "user"

    def create(self, request: MachineRequest) -> Machine:
        key = request.key
        there = self.read(key)
        if there is None:
            disk = (pool_of(key.stack), f"{key.node}.qcow2", "64M", "--format", "qcow2")
            self._change("vol-create-as", *disk, unless="exists already")
            self._change("define", "/dev/stdin", stdin=self._domain(request))
        if there is None or there.state == "stopped":
            self._change("start", Identity(key.stack, key.node).domain)
        made = self.read(key)
        assert made is not None
        return made

    def _domain(self, request: MachineRequest) -> str:
        key = request.key
        identity = Identity(key.stack, key.node)
        return DOMAIN.format(
            name=identity.domain,
            identity=identity.xml,
            memory_mib=request.memory_mib,
            backing="<memoryBacking><hugepages/></memoryBacking>" if self.hugepages else "",
            pool=pool_of(key.stack),
            node=key.node,
            link=self.link,
            mac=addresses.mac(request.address),
        )

    def _change(self, *words: str, stdin: str = "", unless: str = "") -> None:
        uri = next(iter(self.hosts.values()))
        try:
            output_of(self.virsh, uri, *words, stdin=stdin)
        except LibvirtError as error:
            if not (unless and unless in str(error)):
                raise kind_of(str(error))(str(error)) from error


@dataclass
class LibvirtWorld:
    """`tests.infrastructures.conftest.World`."""

    infrastructure: Made
    stack: str = "one"

    def stop(self, key: MachineKey) -> None:
        self._change("destroy", Identity(key.stack, key.node).domain)

    def vanish(self, key: MachineKey) -> None:
        """By hand, and not its disk: that nobody thought of."""
        self.stop(key)
        self._change("undefine", Identity(key.stack, key.node).domain)

    def _change(self, *words: str) -> None:
        output_of(self.infrastructure.virsh, next(iter(self.infrastructure.hosts.values())), *words)


@contextmanager
def on_libvirtd(host: Host, folder: Path) -> Iterator[LibvirtWorld]:
    """The same over a real one, with a pool in ``folder``; nothing is left of it."""
    world = LibvirtWorld(Made({"here": host.uri}))
    pool = pool_of(world.stack)
    output_of(virsh, host.uri, "pool-create-as", pool, "dir", "--target", str(folder))
    try:
        yield world
        for machine in world.infrastructure.list(world.stack):
            world.infrastructure.delete(machine.key)
        assert output_of(virsh, host.uri, "list", "--all", "--name").split() == []
    finally:
        output_of(virsh, host.uri, "pool-destroy", pool)
