"""BMCs with a machine of this kernel behind each host, at the address that its medium says, in one network.

A host that is switched on boots what its BMC has fetched from the stack's boot service: the golden image that this ISO was made from,
with its seed laid over it as the initramfs of a host does, by the image's own systemd (`tests.infrastructures.kernel_vm`). Firmware, GRUB
and the kernel are left out. NFS exports are folders. A host that is switched off keeps nothing.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from tests.golden import golden_image
from tests.infrastructures.kernel_vm import with_exports, with_systemd
from tests.infrastructures.local.stacks import Stack, left_of
from tests.infrastructures.metal import boot_service
from tests.infrastructures.metal.bmcs import Bmcs, bmcs
from tidepool.cluster.boot import File
from tidepool.images import Image
from tidepool.images.iso import SEED_BYTES, seed_at
from tidepool.images.memory_root import UPPER
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local.kernel import MachineSpec, NetworkSpec

IMAGE: Final = "debian-12-vm"
_STACK: Final = "metal"
_BOOT_PORT: Final = 8081
#: In it an ISO says where its files are, and how large.
_HEAD_BYTES: Final = 2**20
_HEADER, _FIELDS = 110, 13
_KINDS, _FILE, _LINK = 0o170000, 0o100000, 0o120000


@dataclass
class KernelHosts:
    """``bmcs`` are of hosts in a network, to which ``prefix`` leads a command; ``boot_service`` is the URL of one that is served there."""

    folder: Path
    bmcs: Bmcs
    prefix: tuple[str, ...]
    boot_service: str
    #: At which there is room for more services.
    address: str
    images: tuple[str, ...]
    exports: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def on(self) -> set[str]:
        """The hosts that are switched on."""
        return {name for name in self.bmcs.tags if self.bmcs.system(name)["power_state"] == "On"}

    def power(self, host: str, state: str) -> None:
        """Boot the host, or cut its power."""
        if (node := self._nodes.pop(host, "")) != "":
            kernel.delete_machine(self.data, _STACK, node)
        if state == "On":
            spec = self._spec(self.bmcs.medium(host))
            self._nodes[host] = spec.name
            kernel.create_machine(self.data, spec)

    def __post_init__(self) -> None:
        self._nodes: dict[str, str] = {}
        self.bmcs.driver.on_power = self.power

    @contextmanager
    def serving(self, data: Path) -> Iterator[None]:
        """The boot service of the stacks whose data are there runs."""
        with boot_service.served(data, self.boot_service.removeprefix("http://"), self.prefix):
            yield

    def _spec(self, iso: Path) -> MachineSpec:
        with iso.open("rb") as file:
            file.seek(seed_at(iso))
            seed = {path.removeprefix(f"{UPPER}/"): told for path, told in unpacked(file.read(SEED_BYTES))}
        told = seed["etc/systemd/network/05-tidepool.network"][1]
        said = dict(re.findall(r"(\w+)=(\S+)", told))
        spec = MachineSpec(
            stack=_STACK,
            name=_node(seed["usr/lib/tidepool/metal.json"][1]),
            network="net",
            address=said["Address"].partition("/")[0],
            mac=said["MACAddress"],
            image=str(self._image_of(iso).root),
            cpus=2,
            memory_mib=1024,
            files=tuple(
                File(f"/{path}", text, f"{mode & 0o777:04o}")
                for path, (mode, text) in seed.items()
                if mode & _KINDS == _FILE
            ),
        )
        links = {path: text for path, (mode, text) in seed.items() if mode & _KINDS == _LINK}
        lines = [f"mkdir -p /{Path(path).parent}; ln -sfn {text} /{path}\n" for path, text in links.items()]
        return with_systemd(with_exports(spec, self.exports), "".join(lines))

    def _image_of(self, iso: Path) -> Image:
        """The image that it was made from: what it begins with is no other's."""
        (found,) = {
            image.digest: image
            for image in map(golden_image, self.images)
            if _begins(image.folder / "image.iso") == _begins(iso)
        }.values()
        return found


def _begins(iso: Path) -> bytes:
    with iso.open("rb") as file:
        return file.read(_HEAD_BYTES)


def _node(told: str) -> str:
    (node,) = re.findall(r'"node": "([^"]+)"', told)
    return str(node)


def unpacked(cpio: bytes) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yield the entries of a cpio in the form newc, as the kernel unpacks it: path, mode and text."""
    at = 0
    while True:
        fields = [int(cpio[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(_FIELDS)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        begin = at + _HEADER
        path = cpio[begin : begin + name_size - 1].decode()
        if path == "TRAILER!!!":
            return
        begin += name_size
        begin += -begin % 4
        yield path, (mode, cpio[begin : begin + size].decode())
        at = begin + size
        at += -at % 4


@contextmanager
def kernel_hosts(
    folder: Path,
    cidr: str,
    *names: str,
    images: Sequence[str] = (IMAGE,),
    exports: Path | None = None,
    address: str = "",
) -> Iterator[KernelHosts]:
    """So many hosts, all off and nobody's; no machine is left afterwards. What they mount by NFS are folders in ``exports``.

    With ``address`` services answer there, as where the network is one with another, whose switch has that of this one.
    """
    stack = Stack(folder / "data", _STACK, golden_image(IMAGE).root)
    wanted = NetworkSpec(_STACK, "net", cidr)
    network = kernel.create_network(stack.data, wanted)
    if exports is None:
        exports = folder / "nfs"
        for name in ("home", "slurmctld"):
            (exports / name).mkdir(parents=True)
    if address:
        prefix = f"/{IPv4Network(cidr).prefixlen}"
        for verb, at in (("del", wanted.switch_address), ("add", address)):
            words = [*network.prefix, "ip", "address", verb, f"{at}{prefix}", "dev", "switch"]
            subprocess.run(words, check=True)
    address = address or wanted.switch_address
    try:
        with bmcs(*names, namespace=f"/proc/{network.pid}/ns/net", address=address) as made:
            service = f"http://{address}:{_BOOT_PORT}"
            yield KernelHosts(folder, made, tuple(network.prefix), service, address, tuple(images), exports)
    finally:
        for machine in kernel.list_machines(stack.data, _STACK):
            kernel.delete_machine(stack.data, _STACK, machine.name)
        kernel.delete_network(stack.data, _STACK, "net")
        assert left_of(stack) == []
