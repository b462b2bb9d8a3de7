"""The stand-in with a machine of this kernel behind each VM, at its address, in one network.

The API answers at an address of that network. VMs run their user data at each boot, by a program in place of cloud-init, and its
units by one in place of systemd. NFS exports are folders. Rules of the network are records, which filter nothing; images are
one that is there: the golden one.
"""

from __future__ import annotations

import base64
import gzip
import json
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
from tests.infrastructures.local.stacks import Stack, left_of
from tidepool.cluster import addresses
from tidepool.cluster.boot import File, Folder, Mount, Service
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local.kernel import MachineSpec, NetworkSpec

_STACK: Final = "cloudstack"
IMAGE: Final = "debian-12-cloud"
TEMPLATE: Final = "debian"
_HERE: Final = Path(__file__).parent
_OF_TEST: Final = "/etc/tidepool-test"
#: In place of programs of the image; those of systemd are the same as for instances of AWS.
_PROGRAMS: Final = {
    f"{_OF_TEST}/boot": _HERE / "machine/boot",
    "/usr/local/sbin/mount": _HERE / "machine/mount",
    f"{_OF_TEST}/units": _HERE.parent / "aws/machine/units",
    "/usr/local/sbin/systemctl": _HERE.parent / "aws/machine/systemctl",
}
_PORT: Final = 8080


@dataclass
class KernelCloud:
    """``url`` is where the API is for who is in the network, to which ``prefix`` leads a command; ``gateway`` is nobody."""

    folder: Path
    cloud: Cloud
    prefix: tuple[str, ...]
    url: str
    gateway: str

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
        user_data = gzip.decompress(base64.b64decode(told)).decode().partition("\n")[2]
        address = vm["nic"][0]["ipaddress"]
        return MachineSpec(
            stack=_STACK,
            name=vm["name"],
            network="net",
            address=address,
            mac=addresses.mac(IPv4Address(address)),
            image=str(golden_image(IMAGE).root),
            cpus=2,
            memory_mib=1024,
            services=(
                Service("cloud-init", (f"{_OF_TEST}/boot",), once=True, ready_timeout_s=0),
                Service("units", (f"{_OF_TEST}/units",)),
            ),
            files=(
                *(File(path, program.read_text(), "0755") for path, program in _PROGRAMS.items()),
                File(f"{_OF_TEST}/user-data.json", json.dumps(json.loads(user_data))),
            ),
            folders=(Folder("/run/sshd"),),
            mounts=(Mount(str(self.folder / "nfs"), "/srv/nfs", read_only=False),),
            capabilities=("sys_admin", "sys_ptrace", "mknod"),
        )


@contextmanager
def kernel_cloud(folder: Path, cidr: str) -> Iterator[KernelCloud]:
    """A zone with nothing in it but a template; no machine is left afterwards."""
    stack = Stack(folder / "data", _STACK, golden_image(IMAGE).root)
    wanted = NetworkSpec(_STACK, "net", cidr)
    network = kernel.create_network(stack.data, wanted)
    for name in ("home", "slurmctld"):
        (folder / "nfs" / name).mkdir(parents=True)
    cloud = Cloud()
    cloud.job_s = 0.1
    cloud.templates["t"] = _template(cloud)
    url = f"http://{wanted.switch_address}:{_PORT}/client/api"
    it = KernelCloud(folder, cloud, tuple(network.prefix), url, str(next(IPv4Network(cidr).hosts())))
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
