"""BMCs with a machine of this kernel behind each host, at the address that its medium says, in one network.

A host that is switched on boots what its BMC has fetched from the stack's boot service: the golden image with the seed of that ISO over
it, as the kernel of a host unpacks both. Firmware, GRUB and the kernel are left out, and the image's units are run by a program in
place of systemd. NFS exports are folders. A host that is switched off keeps nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.golden import golden_image
from tests.infrastructures.local.stacks import Stack, left_of
from tests.infrastructures.metal.bmcs import Bmcs, bmcs
from tidepool.cluster.boot import File, Folder, Mount, Service
from tidepool.images.iso import SEED_BYTES, seed_at
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local.kernel import MachineSpec, NetworkSpec

IMAGE: Final = "debian-12-vm"
_STACK: Final = "metal"
_OTHERS: Final = Path(__file__).parent.parent
_OF_TEST: Final = "/etc/tidepool-test"
#: In place of programs of the image: the same as for instances of AWS and VMs of CloudStack.
_PROGRAMS: Final = {
    "/usr/local/sbin/mount": _OTHERS / "cloudstack/machine/mount",
    f"{_OF_TEST}/units": _OTHERS / "aws/machine/units",
    "/usr/local/sbin/systemctl": _OTHERS / "aws/machine/systemctl",
}
#: The names of machines of this kernel are told by their network: it is a link to those. They have theirs already.
_BOOT: Final = """\
rm -f /etc/hosts
mkdir -p /run/units /etc/systemd/system/multi-user.target.wants
touch /run/hostname
/usr/bin/mount --bind /run/hostname /proc/sys/kernel/hostname
exec /usr/lib/tidepool/metal
"""
_BOOT_PORT: Final = 8081
_HEADER, _FIELDS = 110, 13
_KINDS, _FILE = 0o170000, 0o100000


@dataclass
class KernelHosts:
    """``bmcs`` are of hosts in a network, to which ``prefix`` leads a command; ``boot_service`` is the URL of one that is served there."""

    folder: Path
    bmcs: Bmcs
    prefix: tuple[str, ...]
    boot_service: str

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
        listen = self.boot_service.removeprefix("http://")
        command = [
            sys.executable,
            "-P",
            "-m",
            "tidepool.infrastructures.metal.boot_service",
            "--listen",
            listen,
        ]
        with subprocess.Popen(
            [*self.prefix, *command], env={"PATH": "/usr/sbin:/usr/bin", "TIDEPOOL_DATA": str(data)}
        ) as it:
            try:
                yield
            finally:
                it.kill()

    def _spec(self, iso: Path) -> MachineSpec:
        with iso.open("rb") as file:
            file.seek(seed_at(iso))
            seed = dict(unpacked(file.read(SEED_BYTES)))
        told = seed["etc/systemd/network/05-tidepool.network"][1]
        said = dict(re.findall(r"(\w+)=(\S+)", told))
        return MachineSpec(
            stack=_STACK,
            name=_node(seed["usr/lib/tidepool/metal.json"][1]),
            network="net",
            address=said["Address"].partition("/")[0],
            mac=said["MACAddress"],
            image=str(golden_image(IMAGE).root),
            cpus=2,
            memory_mib=1024,
            services=(
                Service("nocloud", ("/bin/sh", "-c", _BOOT), once=True, ready_timeout_s=0),
                Service("units", (f"{_OF_TEST}/units",)),
            ),
            files=(
                *(File(path, program.read_text(), "0755") for path, program in _PROGRAMS.items()),
                *(
                    File(f"/{path}", text, f"{mode & 0o777:04o}")
                    for path, (mode, text) in seed.items()
                    if mode & _KINDS == _FILE
                ),
            ),
            folders=(Folder("/run/sshd"),),
            mounts=(Mount(str(self.folder / "nfs"), "/srv/nfs", read_only=False),),
            capabilities=("sys_admin", "sys_ptrace", "mknod"),
        )


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
def kernel_hosts(folder: Path, cidr: str, *names: str) -> Iterator[KernelHosts]:
    """So many hosts, all off and nobody's; no machine is left afterwards."""
    stack = Stack(folder / "data", _STACK, golden_image(IMAGE).root)
    wanted = NetworkSpec(_STACK, "net", cidr)
    network = kernel.create_network(stack.data, wanted)
    for name in ("home", "slurmctld"):
        (folder / "nfs" / name).mkdir(parents=True)
    address = str(wanted.switch_address)
    try:
        with bmcs(*names, namespace=f"/proc/{network.pid}/ns/net", address=address) as made:
            yield KernelHosts(folder, made, tuple(network.prefix), f"http://{address}:{_BOOT_PORT}")
    finally:
        for machine in kernel.list_machines(stack.data, _STACK):
            kernel.delete_machine(stack.data, _STACK, machine.name)
        kernel.delete_network(stack.data, _STACK, "net")
        assert left_of(stack) == []
