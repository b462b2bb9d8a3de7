"""The stand-in with a machine of this kernel behind each VM, at its address, in one network.

The API answers at an address of that network. VMs have systemd and cloud-init of their image (`tests.infrastructures.kernel_vm`). NFS
exports are folders. Rules of the network are records, which filter nothing; images are
one that is there: the golden one.
"""

from __future__ import annotations

import base64
import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Final

from tests.golden import golden_image
from tests.infrastructures.aws.http import served
from tests.infrastructures.cloudstack.cloud import Cloud
from tests.infrastructures.cloudstack.server import handler
from tests.infrastructures.cloudstack.state import Item
from tests.infrastructures.kernel_vm import as_vm, with_exports
from tests.infrastructures.local.stacks import Stack, left_of
from tidepool.cluster import addresses
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local.kernel import MachineSpec, NetworkSpec

_STACK: Final = "cloudstack"
IMAGE: Final = "debian-12-cloud"
TEMPLATE: Final = "debian"
_PORT: Final = 8080


@dataclass
class KernelCloud:
    """``url`` is where the API is for who is in the network ``cidr``, to which ``prefix`` leads a command; ``gateway`` is nobody.

    VMs have ``image``'s root; what they mount by NFS are folders in ``exports``.
    """

    folder: Path
    cloud: Cloud
    prefix: tuple[str, ...]
    url: str
    cidr: str
    image: Path
    exports: Path

    @property
    def gateway(self) -> str:
        return str(next(IPv4Network(self.cidr).hosts()))

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def there(self) -> dict[str, str]:
        """The VMs that are there, by name, and how each is."""
        with self.cloud.lock:
            return {vm["name"]: vm["state"] for vm in self.cloud.vms.values()}

    def log(self, machine: str) -> str:
        """What a machine said on its console."""
        return kernel.boot_log(self.data, _STACK, machine, 200)

    def start(self, vm: Item) -> None:
        kernel.create_machine(self.data, self._spec(vm))

    def stop(self, vm: Item) -> None:
        if vm["id"] in self.cloud.vms:
            kernel.stop_machine(self.data, _STACK, vm["name"], timeout_s=10)
        else:
            kernel.delete_machine(self.data, _STACK, vm["name"])

    def _spec(self, vm: Item) -> MachineSpec:
        told = self.cloud.user_data[vm["userdataid"]]["userdata"]
        address = vm["nic"][0]["ipaddress"]
        spec = MachineSpec(
            stack=_STACK,
            name=vm["name"],
            network="net",
            address=address,
            mac=addresses.mac(IPv4Address(address)),
            image=str(self.image),
            cpus=2,
            memory_mib=1024,
        )
        return as_vm(
            with_exports(spec, self.exports), self.cidr, gzip.decompress(base64.b64decode(told)).decode()
        )


@contextmanager
def kernel_cloud(
    folder: Path, cidr: str, image: str = IMAGE, exports: Path | None = None
) -> Iterator[KernelCloud]:
    """A zone with nothing in it but a template; no machine is left afterwards."""
    root = golden_image(image).root
    stack = Stack(folder / "data", _STACK, root)
    wanted = NetworkSpec(_STACK, "net", cidr)
    network = kernel.create_network(stack.data, wanted)
    if exports is None:
        exports = folder / "nfs"
        for name in ("home", "slurmctld"):
            (exports / name).mkdir(parents=True)
    cloud = Cloud()
    cloud.job_s = 0.1
    cloud.templates["t"] = _template(cloud)
    url = f"http://{wanted.switch_address}:{_PORT}/client/api"
    it = KernelCloud(folder, cloud, tuple(network.prefix), url, cidr, root, exports)
    cloud.started, cloud.stopped = it.start, it.stop
    servers: list[ThreadingHTTPServer] = []
    try:
        namespace = f"/proc/{network.pid}/ns/net"
        servers.append(served(namespace, wanted.switch_address, _PORT, handler(cloud)))
        threading.Thread(target=servers[0].serve_forever, daemon=True).start()
        yield it
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
        for machine in kernel.list_machines(stack.data, _STACK):
            kernel.delete_machine(stack.data, _STACK, machine.name)
        kernel.delete_network(stack.data, _STACK, "net")
        assert left_of(stack) == []


def _template(cloud: Cloud) -> dict[str, Any]:
    return {
        "id": "t",
        "name": TEMPLATE,
        "isready": True,
        "hypervisor": "KVM",
        "arch": "x86_64",
        "zoneid": cloud.zone["id"],
        "tags": [],
    }
