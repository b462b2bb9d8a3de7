"""A host for tests: libvirtd and a file server in namespaces of their own, with folders of their own.

All that they start is in their namespace of processes, and ends with it.
"""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tidepool.infrastructures.libvirt.ask import LibvirtError, output_of, virsh

#: How what is tested with such a host is told.
SOFTWARE: Final = "libvirt and QEMU of Debian 12, in software"
#: The first one of them looks through all of QEMU, which takes half a minute where others work besides.
_READY_S: Final = 240.0
_NEEDS: Final = {
    "libvirtd": "libvirt-daemon-system",
    "virsh": "libvirt-clients",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
}
_NEEDS_OF_CLUSTERS: Final = {
    "mkisofs": "genisoimage",
    "dnsmasq": "dnsmasq-base",
    "ganesha.nfsd": "nfs-ganesha-vfs",
}
#: Machines are nobody's but this test's: nothing that a distribution or systemd brings takes part.
_QEMU_CONF: Final = """\
security_driver = "none"
user = "root"
group = "root"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
remember_owner = 0
"""
_LIBVIRTD_CONF: Final = """\
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
"""
_FOLDERS: Final = {
    "etc": "/etc/libvirt",
    "lib": "/var/lib/libvirt",
    "run": "/run/libvirt",
    "cache": "/var/cache/libvirt",
    "log": "/var/log/libvirt",
}
#: The first process: it has its children's orphans, which are QEMU's, and would be kept as dead by another one.
_INIT: Final = """\
set -eu
mount -t tmpfs none /run
mkdir /run/lock
for pair; do mkdir -p "${pair#*:}"; mount --bind "${pair%%:*}" "${pair#*:}"; done
ip link set lo up
if [ -e /etc/libvirt/exports ]; then
    mount -t tmpfs none /var/lib/nfs
    mkdir -p /var/lib/nfs/ganesha /run/ganesha
    ganesha.nfsd -F -N NIV_EVENT -L /var/log/libvirt/ganesha.log -f /etc/libvirt/exports -p /run/ganesha.pid &
fi
libvirtd &
wait $!
"""
_EXPORTS: Final = """\
NFS_CORE_PARAM { Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; }
NFSv4 { Graceless = true; RecoveryBackend = fs; Only_Numeric_Owners = true; }
EXPORT_DEFAULTS { Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = 4; Transports = TCP; }
"""
_EXPORT: Final = (
    'EXPORT {{ Export_Id = {number}; Path = "{path}"; Pseudo = "/{name}"; FSAL {{ Name = VFS; }} }}\n'
)


def missing(*, file_server: bool = False) -> str:
    """Why there can be no such host here; empty where there can."""
    if os.geteuid() != 0:
        return "libvirtd needs root: run the tests with sudo"
    needs = {**_NEEDS, **(_NEEDS_OF_CLUSTERS if file_server else {})}
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    lacks = {tool: package for tool, package in needs.items() if shutil.which(tool, path=path) is None}
    if lacks:
        return f"{', '.join(lacks)} is not installed: apt-get install {' '.join(lacks.values())}"
    return ""


@dataclass(frozen=True, slots=True)
class Host:
    """libvirtd in ``folder``. The command ``prefix`` leads into its network."""

    folder: Path
    prefix: tuple[str, ...] = ()

    @property
    def uri(self) -> str:
        return f"qemu:///system?socket={self.folder}/run/libvirt-sock"

    @contextmanager
    def console(self, domain: str) -> Iterator[None]:
        """What the domain writes to its console is kept, for `said`."""
        ours, theirs = pty.openpty()
        command = [
            "script",
            "--quiet",
            "--flush",
            "--command",
            f"virsh --connect '{self.uri}' console {domain}",
        ]
        log = self.folder / "log" / "console.log"
        with subprocess.Popen([*command, log], stdin=theirs, stdout=subprocess.DEVNULL) as process:
            try:
                yield
            finally:
                process.kill()
                os.close(ours)
                os.close(theirs)

    def said(self) -> str:
        """What its daemons wrote."""
        return "\n".join(
            path.read_text(errors="replace")[-3000:]
            for path in sorted((self.folder / "log").glob("**/*.log"))
        )


@contextmanager
def a_host(
    folder: Path,
    network: Sequence[str] = ("unshare", "--net", "--"),
    exports: Mapping[str, Path] | None = None,
) -> Iterator[Host]:
    """A host that runs, in the network namespace that the command ``network`` leads to.

    With ``exports``, these folders are there by NFS under these names, at all addresses of that namespace.
    """
    host = Host(folder)
    for name in _FOLDERS:
        (folder / name).mkdir(parents=True)
    (folder / "etc" / "qemu.conf").write_text(_QEMU_CONF)
    (folder / "etc" / "libvirtd.conf").write_text(_LIBVIRTD_CONF)
    if exports:
        several = (
            _EXPORT.format(number=number, name=name, path=path)
            for number, (name, path) in enumerate(exports.items(), 1)
        )
        (folder / "etc" / "exports").write_text(_EXPORTS + "".join(several))
    pairs = [f"{folder}/{name}:{place}" for name, place in _FOLDERS.items()]
    apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
    command = ["setpriv", "--pdeathsig", "KILL", *network, *apart, "sh", "-c", _INIT, "init", *pairs]
    with (
        (folder / "log" / "init.log").open("wb") as log,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"},
        ) as process,
    ):
        try:
            _wait(host, process)
            # It has entered its network before it did anything else.
            yield replace(host, prefix=("nsenter", f"--net=/proc/{process.pid}/ns/net", "--"))
        finally:
            process.kill()


def _wait(host: Host, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        assert process.poll() is None, host.said()
        if not (lacks := _lacks(host)):
            return
        assert time.monotonic() < deadline, f"{lacks}\n{host.said()}"
        time.sleep(0.2)


def _lacks(host: Host) -> str:
    try:
        output_of(virsh, host.uri, "list")
    except LibvirtError as error:
        return str(error)
    log = host.folder / "log" / "ganesha.log"
    if (host.folder / "etc" / "exports").exists() and not (
        log.exists() and "NFS SERVER INITIALIZED" in log.read_text()
    ):
        return "the file server is not up"
    return ""
