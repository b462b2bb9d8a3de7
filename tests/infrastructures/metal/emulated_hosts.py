"""BMCs with an emulated machine behind each host: sushy-tools and its own driver of libvirt, before a real libvirtd.

Whoever is switched on boots by firmware from what the BMC has fetched, as a host does. A host has a disk, which is empty, and its
serial line is kept in a file.
"""

from __future__ import annotations

import importlib
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

from tests.infrastructures.libvirt.daemon import Host
from tests.infrastructures.metal import boot_service
from tests.infrastructures.metal.bmcs import Bmcs, configured, served
from tidepool.infrastructures.libvirt.ask import output_of, virsh
from tidepool.infrastructures.libvirt.domain import EMULATED

#: Debian's package python3-libvirt: what PyPI has is made from source, with a compiler.
_DEBIANS: Final = "/usr/lib/python3/dist-packages"
_BOOT_PORT: Final = 8081
_POOL: Final = "vmedia"
MEMORY_MIB: Final = 2048
DISK_MIB: Final = 4096
#: SATA, which firmware reads without the processor: of IDE it would take a byte at a time.
_DOMAIN: Final = """\
<domain type="qemu">
  <name>{name}</name><uuid>{uuid}</uuid><memory unit="MiB">{memory_mib}</memory><vcpu>1</vcpu>
  <sysinfo type="smbios"><system><entry name="family">{family}</entry></system></sysinfo>
  <os {firmware}><type arch="x86_64" machine="q35">hvm</type><smbios mode="sysinfo"/></os>
  <features><acpi/><apic/><tcg><tb-cache unit="MiB">512</tb-cache></tcg></features>
  <clock offset="utc"/>
  <devices>
    <disk type="file" device="disk">
      <driver name="qemu" type="raw" discard="unmap"/><source file="{folder}/{name}.disk"/><target dev="sda" bus="sata"/>
      <serial>disk-of-{name}</serial><boot order="1"/>
    </disk>
    <interface type="bridge"><source bridge="switch"/><mac address="{mac}"/><model type="virtio"/></interface>
    <serial type="file"><source path="{folder}/{name}.console" append="on"/></serial>
    <rng model="virtio"><backend model="random">/dev/urandom</backend></rng>
  </devices>
</domain>
"""


def libvirt_of_debian() -> Any:
    """The module that sushy-tools asks libvirt with; None where it is not there, or of another Python."""
    sys.path.append(_DEBIANS)
    try:
        found = importlib.import_module("libvirt")
    except ImportError:
        return None
    finally:
        sys.path.remove(_DEBIANS)
    # It would write each error, which sushy-tools tells of.
    found.registerErrorHandler(lambda *_: None, None)
    return found


@dataclass(frozen=True)
class EmulatedHosts:
    """Hosts by name, and what boots them: ``boot_service`` is the URL of one that `serving` runs."""

    bmcs: Bmcs
    libvirt: Host
    folder: Path
    address: IPv4Address

    @property
    def boot_service(self) -> str:
        return f"http://{self.address}:{_BOOT_PORT}"

    def options(self, name: str) -> dict[str, str]:
        """What a spec says of a host."""
        return {"bmc": self.bmcs.url, "system": f"/redfish/v1/Systems/{uuid_of(name)}", "mac": mac_of(name)}

    def on(self) -> set[str]:
        """The hosts that are switched on."""
        return {*output_of(virsh, self.libvirt.uri, "list", "--name").split()}

    def console(self, name: str) -> str:
        """All that it wrote to its serial line."""
        return (self.folder / f"{name}.console").read_text(errors="replace")

    def disk(self, name: str) -> Path:
        return self.folder / f"{name}.disk"

    @contextmanager
    def serving(self, data: Path) -> Iterator[None]:
        """The boot service of the stacks whose data are there runs."""
        with boot_service.served(data, f"{self.address}:{_BOOT_PORT}", self.libvirt.prefix):
            yield


def uuid_of(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def mac_of(name: str) -> str:
    return ":".join(["52:54:00", *(f"{byte:02x}" for byte in uuid.UUID(uuid_of(name)).bytes[-3:])])


@contextmanager
def emulated_hosts(
    folder: Path, host: Host, address: IPv4Address, *names: str, uefi: bool = False
) -> Iterator[EmulatedHosts]:
    """So many hosts, all off and nobody's, whose BMCs answer at ``address`` of the network that libvirt's host is in."""
    from sushy_tools.emulator.resources.systems import libvirtdriver

    libvirtdriver.libvirt = libvirt_of_debian()
    (folder / _POOL).mkdir(parents=True)
    output_of(virsh, host.uri, "pool-define-as", _POOL, "dir", "--target", str(folder / _POOL))
    output_of(virsh, host.uri, "pool-start", _POOL)
    for name in names:
        with (folder / f"{name}.disk").open("wb") as disk:
            disk.truncate(DISK_MIB << 20)
        wanted = _DOMAIN.format(
            name=name, uuid=uuid_of(name), mac=mac_of(name), folder=folder, memory_mib=MEMORY_MIB, family=EMULATED,
            firmware='firmware="efi"' if uefi else "",
        )  # fmt: skip
        (folder / f"{name}.xml").write_text(wanted)
        output_of(virsh, host.uri, "define", str(folder / f"{name}.xml"))
    app = configured(str(folder), {"SUSHY_EMULATOR_FAKE_DRIVER": False, "SUSHY_EMULATOR_STORAGE_POOL": _POOL})
    driver = libvirtdriver.LibvirtDriver.initialize(app.config, app.logger, host.uri)()
    made = Bmcs(driver, {uuid_of(name): "" for name in names}, folder=folder)
    (namespace,) = (word.removeprefix("--net=") for word in host.prefix if word.startswith("--net="))
    with served(made, namespace=namespace, address=str(address)) as bmcs:
        yield EmulatedHosts(bmcs, host, folder, address)
