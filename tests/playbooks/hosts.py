"""Machines that somebody else installed: an ordinary Debian with sshd, and apt whose packages are in a folder.

They are machines of this machine, started by systemd or by nothing but an sshd, in a network that is there. Each is reached as hosts are, at an address
and a port of ours that leads to its sshd.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.golden import golden_store, image_of
from tests.infrastructures.kernel_vm import DISK, with_systemd
from tests.infrastructures.local.stacks import Stack
from tidepool.cluster.boot import File, Folder, Mount, Service
from tidepool.images import ImageStore, Machine, MirrorError
from tidepool.images.apt import private_apt
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local.kernel import MachineSpec

BARE = Path(__file__).parent / "bare"
#: The same that systemd starts.
SYSTEMD = Path(__file__).parent / "bare-systemd"
PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
#: What the roles install; what that needs comes along.
PACKAGES = (
    "chrony",
    "containerd",
    "containernetworking-plugins",
    "libnss-extrausers",
    "mariadb-client-core",
    "mariadb-server-core",
    "munge",
    "nfs-common",
    "nftables",
    "openmpi-bin",
    "openssh-server",
    "runc",
    "slurm-client",
    "slurmctld",
    "slurmd",
    "slurmdbd",
)
_HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
_SOURCES = "deb [trusted=yes] file:/srv/packages ./\n"
_SSHD = ("/usr/sbin/sshd", "-D", "-e", "-h", _HOST_KEY)
#: As init does at each boot; sshd runs already.
_INIT = 'for each in /etc/rc2.d/S*; do case $each in *ssh) ;; *) "$each" start ;; esac; done'
#: What an administrator of such a machine may do: addresses, filters, mounts.
_CAPABILITIES = ("sys_admin",)


def repository() -> Path:
    """A folder of packages for apt, kept beside the images of tests. Skips where the mirror does not answer."""
    name = hashlib.sha256("\n".join(PACKAGES).encode()).hexdigest()[:16]
    folder = golden_store() / f"packages-{name}"
    if (folder / "Packages").exists():
        return folder
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    partial.mkdir()
    try:
        with private_apt(Machine(dict(os.environ)), "bookworm", ImageStore(folder.parent)) as apt:
            apt.download(apt.resolve(PACKAGES), partial, lambda *_: None)
        entries = []
        for file in sorted(partial.glob("*.deb")):
            said = subprocess.run(["dpkg-deb", "--field", file], check=True, capture_output=True, text=True)
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            more = f"Filename: ./{file.name}\nSize: {file.stat().st_size}\nSHA256: {digest}\n"
            entries.append(f"{said.stdout.rstrip()}\n{more}")
        (partial / "Packages").write_text("\n".join(entries))
        with suppress(OSError):  # another process was first
            partial.rename(folder)
    except MirrorError as error:
        pytest.skip(str(error))
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


@cache
def bare_image(recipe: Path = BARE) -> Path:
    """The root of such a machine."""
    return image_of(recipe).root


@dataclass
class Host:
    """One of them: ``name`` in its stack, ``address`` there, and ``port`` of 127.0.0.1 that leads to its sshd."""

    stack: Stack
    name: str
    address: str
    spec: MachineSpec
    port: int = 0
    host_key: str = ""
    #: /etc/hosts is an ordinary file, as such machines have it; that of machines of ours is their network's at each boot.
    _names: str = "127.0.0.1 localhost\n"
    _listener: socket.socket | None = field(default=None, repr=False)

    def run(self, *argv: str, timeout_s: float = 60) -> str:
        """What a command of root's there says."""
        ended = self.stack.run(*argv, on=self.name, timeout_s=timeout_s)
        assert ended.code == 0, ended
        return ended.stdout

    def boot(self) -> None:
        """Have it run, with what it has on its disk."""
        kernel.create_machine(self.stack.data, self.spec)
        kernel.wait_ready(self.stack.data, self.stack.name, self.name, 60)
        self.run("sh", "-c", 'rm /etc/hosts; printf %s "$0" >/etc/hosts', self._names)
        self.run("sh", "-c", _INIT)

    def pull_plug(self) -> None:
        """Kill all that runs there, at once. Its disk stays."""
        self._names = self.run("cat", "/etc/hosts")
        kernel.stop_machine(self.stack.data, self.stack.name, self.name, timeout_s=0)

    def listen(self) -> None:
        """Lead connections to it from now on."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """And no more."""
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _accept(self) -> None:
        assert self._listener is not None
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._lead, args=(caller,), daemon=True).start()

    def _lead(self, caller: socket.socket) -> None:
        with caller:
            try:
                called = kernel.dial(self.stack.data, self.stack.name, self.name, self.address, 22, 60)
            except (OSError, kernel.LocalError):
                return
            with called:
                back = threading.Thread(target=_pump, args=(called, caller), daemon=True)
                back.start()
                _pump(caller, called)
                back.join()


@dataclass
class SystemdHost(Host):
    """One that systemd started, in a process namespace of its own: it is entered as people do."""

    key: Path = Path()

    def run(self, *argv: str, timeout_s: float = 60) -> str:
        options = ("-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
        way = ("ssh", "-q", *options, "-i", str(self.key), "-p", str(self.port), "root@127.0.0.1")
        command = [*way, "--", shlex.join(argv)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
        assert ended.returncode == 0, ended
        return ended.stdout

    def boot(self) -> None:
        kernel.create_machine(self.stack.data, self.spec)
        deadline = time.monotonic() + 60
        while True:
            with suppress(OSError, kernel.LocalError):
                kernel.dial(self.stack.data, self.stack.name, self.name, self.address, 22, 5).close()
                return
            assert time.monotonic() < deadline, f"no sshd on {self.name}"
            time.sleep(0.1)

    def pull_plug(self) -> None:
        kernel.stop_machine(self.stack.data, self.stack.name, self.name, timeout_s=0)


def _pump(one: socket.socket, other: socket.socket) -> None:
    """All that one says, and then that it is over."""
    with suppress(OSError):
        while chunk := one.recv(1 << 16):
            other.sendall(chunk)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)


@dataclass(frozen=True)
class Site:
    """Such machines, the key that their administrators let in (as root and admin), and the file of their own keys."""

    stack: Stack
    key: Path
    known_hosts: Path
    hosts: Sequence[Host]

    def inventory(self, **groups: Sequence[str]) -> dict[str, Any]:
        """As Ansible reads one."""
        options = f"-F none -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile={self.known_hosts}"
        every = {
            host.name: {
                "ansible_host": "127.0.0.1",
                "ansible_port": host.port,
                "ansible_user": "admin",
                "ansible_ssh_private_key_file": str(self.key),
                "ansible_ssh_common_args": options,
            }
            for host in self.hosts
        }
        children = {name: {"hosts": dict.fromkeys(members)} for name, members in groups.items()}
        return {"all": {"hosts": every, "children": children}}


@contextmanager
def site(
    stack: Stack, folder: Path, addresses: Mapping[str, str], *mounts: Mount[str], systemd: bool = False
) -> Iterator[Site]:
    """Machines by their names, with addresses in the network of ``stack``; nothing of them is left afterwards.

    Whoever is in that network reaches them at those addresses as well.
    ``mounts`` are what they have mounted before anybody comes.
    """
    key = folder / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)], check=True)
    mounts = (Mount(str(repository()), "/srv/packages"), *mounts)
    public_key = key.with_suffix(".pub").read_text()
    specs = {
        name: _spec(stack, name, address, mounts, public_key, systemd=systemd)
        for name, address in addresses.items()
    }
    hosts: list[Host] = [
        SystemdHost(stack, name, spec.address, spec, key=key)
        if systemd
        else Host(stack, name, spec.address, spec)
        for name, spec in specs.items()
    ]
    try:
        for host in hosts:
            host.boot()
            host.listen()
            host.run("apt-get", "-q", "update")
            host.host_key = host.run("cat", f"{_HOST_KEY}.pub").strip()
        known = folder / "known_hosts"
        known.write_text(
            "".join(f"[127.0.0.1]:{host.port},{host.address} {host.host_key}\n" for host in hosts)
        )
        yield Site(stack, key, known, hosts)
    finally:
        for host in hosts:
            host.close()
            kernel.delete_machine(stack.data, stack.name, host.name)


def _spec(
    stack: Stack,
    name: str,
    address: str,
    mounts: tuple[Mount[str], ...],
    public_key: str,
    *,
    systemd: bool,
) -> MachineSpec:
    make_key = f"test -s {_HOST_KEY}.pub || ssh-keygen -q -t ed25519 -N '' -C '' -f {_HOST_KEY}"
    spec = MachineSpec(
        stack=stack.name,
        name=name,
        network="net",
        address=address,
        mac="02:00:" + ":".join(f"{int(part):02x}" for part in address.split(".")),
        image=str(bare_image(SYSTEMD if systemd else BARE)),
        cpus=2,
        memory_mib=2048,
        services=(
            Service("hostkey", ("/bin/sh", "-ec", make_key), once=True),
            Service("sshd", _SSHD, ready="tcp:22"),
        ),
        files=(
            File("/etc/apt/sources.list", _SOURCES),
            *(File(f"/etc/ssh/keys/{user}", public_key) for user in ("root", "admin")),
        ),
        folders=(Folder("/run/sshd"), Folder("/etc/ssh/keys")),
        mounts=mounts,
        capabilities=_CAPABILITIES,
    )
    return with_systemd(spec, f"{DISK}{make_key}\n") if systemd else spec
