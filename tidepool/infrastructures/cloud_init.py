"""A boot as user data of cloud-init: for machines that systemd starts, wherever they are.

Files are written once for each seed, which its digest names; folders, mounts and services are each boot's, as units of systemd
(`tidepool.infrastructures.units`).
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Final

from pulumi import Output

from tidepool.cluster.boot import cloud_config
from tidepool.infrastructures.container import packed
from tidepool.infrastructures.contract import Boot, File
from tidepool.infrastructures.units import LIBRARY, TARGET, UNITS, WAIT, Mounting, files_of_role

#: What images bring that would take the place of our services.
_OF_THE_IMAGE: Final = (
    "munge.service",
    "slurmctld.service",
    "slurmd.service",
    "slurmdbd.service",
    "mariadb.service",
    "ssh.service",
    "ssh.socket",
)
_OF_CONTAINERS: Final = ("containerd.service",)
#: An address from the hardware address, of which it is the last four bytes (tidepool.cluster.addresses). A cluster has no addresses of
#: IPv6: a boot that waited for its network would wait for a router of that.
_ADDRESS: Final = """\
#!/bin/sh
set -eu
for link in ${2:-/sys/class/net}/*; do
    case $(cat "$link/address") in 02:74:*) ;; *) continue ;; esac
    hex=$(sed 's/^02:74:/0x/; s/:/ 0x/g' "$link/address")
    printf '[Match]\\nMACAddress=%s\\n[Network]\\nAddress=%d.%d.%d.%d/%s\\nLinkLocalAddressing=no\\nIPv6AcceptRA=no\\n' \\
        "$(cat "$link/address")" $hex "$1" >${3:-/etc/systemd/network}/05-tidepool.network
done
"""
#: Units that systemd has never read need no reading anew.
_ENABLE: Final = f"""\
link={UNITS}/multi-user.target.wants/{TARGET}
if [ -L "$link" ]; then systemctl daemon-reload; else ln -s {UNITS}/{TARGET} "$link"; fi
"""
#: For a seed that cloud-init finds beside itself: it has done all of it in its first stage. Each of the three that are left is
#: a Python more, many seconds of an emulated processor, and all else waits for the next one.
_NO_MORE_STAGES: Final = """\
if [ "$(systemctl is-active cloud-init-local.service)" = activating ]; then
    systemctl stop --no-block cloud-init.service cloud-config.service cloud-final.service
fi
"""
#: What such a seed is for, in the order of cloud-init; people and their keys come with the boot.
_MODULES: Final = ("bootcmd", "write_files", "set_hostname", "update_hostname", "runcmd", "scripts_user")


def by_nfs(source: str, target: str, mode: str) -> Sequence[str]:
    """An export of a file server, which may be late. Of NFS before version 4 machines have no daemons."""
    at, told = shlex.quote(target), shlex.quote(f"mounts {source} at {target}")
    # It is tried again here, where why it does not work is told.
    mount = f"mount -t nfs4 -o {mode},hard,retry=0 {shlex.quote(source)} {at}"
    tries = f'until why=$({mount} 2>&1); do say {told}, and waits for it: "$why"; sleep 2; done'
    return [f"mountpoint -q {at} || {{ say {told}; {tries}; }}"]


def by_disk(device: str, target: str, mode: str) -> Sequence[str]:
    """The disk of a file server. It is given a file system where it has none, and none where it is not understood."""
    make = f"mkfs.ext4 -q -O project,quota -E quotatype=prjquota {device}"
    return [
        f"blkid -p {device} >/dev/null 2>&1 || test $? -ne 2 || {make}",
        f"mountpoint -q {target} || mount -t ext4 -o {mode},prjquota {device} {target}",
    ]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Settings of all machines of a cluster besides: who else there is, and where their addresses come from.

    ``hosts`` are the cluster's own machines by name. With ``prefix``, the network's, a machine gives itself the address
    that its hardware address says, and asks nobody for one. ``mounting`` is how it comes to its volumes. With ``beside``
    seeds are on disks of their machines, whose images are ours: there is nothing more for cloud-init to do.
    """

    hosts: Mapping[str, IPv4Address]
    prefix: int | None = None
    mounting: Mounting = by_nfs
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Seed:
    """The files of cloud-init's source `NoCloud`. ``user_data`` holds keys."""

    user_data: str
    meta_data: str
    network_config: str


def seed(boot: Boot, surroundings: Surroundings) -> Output[Seed]:
    """Return the seed of machines of that boot; secret, where a part of it is."""
    contents = Output.all(*(file.content for file in boot.files))
    sources = Output.all(*(mount.source for mount in boot.mounts))
    return Output.all(contents, sources).apply(
        lambda known: written(boot, surroundings, tuple(known[0]), tuple(known[1]))
    )


def written(boot: Boot, surroundings: Surroundings, contents: Sequence[str], sources: Sequence[str]) -> Seed:
    """The same of contents and sources that are known."""
    files = [
        *(_file(file, content) for file, content in zip(boot.files, contents, strict=True)),
        _text("/etc/hosts", hosts_file(surroundings.hosts)),
        _text(f"{LIBRARY}/wait", WAIT, "0755"),
    ]
    found = (*(each.role for each in boot.services), *(each.role for each in boot.mounts))
    roles = [role for role in dict.fromkeys(found) if role]
    for role in ("", *roles):
        units = files_of_role(role, boot, sources, surroundings.mounting, roles)
        files += [_text(file.path, file.content, file.mode) for file in units]
    others = (*_OF_THE_IMAGE, *(_OF_CONTAINERS if boot.containers else ()))
    # Reading all units anew is seconds where machines are emulated; here they are stopped before they are started.
    bootcmd: list[list[str]] = [["systemctl", "mask", "--now", "--no-reload", *others]]
    if surroundings.prefix is not None:
        files.append(_text(f"{LIBRARY}/address", _ADDRESS, "0755"))
        # Before files are written: it is there from the second boot on as a file as well.
        bootcmd.append(["sh", "-c", _ADDRESS, "address", str(surroundings.prefix)])
        # Where the network is not set up yet, it will be by that file.
        bootcmd.append(["sh", "-c", "networkctl reload || true"])
    if surroundings.beside:
        bootcmd.append(["sh", "-c", _NO_MORE_STAGES])
    data = {
        "ssh_deletekeys": False,
        # The one that comes with the boot, if it does: nobody asks for more of them.
        "ssh_genkeytypes": ["ed25519"],
        "manage_etc_hosts": False,
        "bootcmd": bootcmd,
        "write_files": files,
        "runcmd": [
            ["sh", "-c", _ENABLE],
            ["systemctl", "start", "--no-block", TARGET],
        ],
    }
    if surroundings.beside:
        data |= {"cloud_init_modules": [*_MODULES], "cloud_config_modules": [], "cloud_final_modules": []}
    user_data = cloud_config(data, indent=1)
    # Another seed is another instance to cloud-init, which does all of it again.
    meta_data = f"instance-id: {hashlib.sha256(user_data.encode()).hexdigest()[:32]}\n"
    # Never waited for by a boot: in a network without DHCP there is nothing to wait for. Whose name the server tells, the
    # seed has told: to set it again a daemon is started.
    asks = {
        "dhcp4": surroundings.prefix is None,
        "dhcp4-overrides": {"use-hostname": False},
        "optional": surroundings.prefix is not None,
    }
    # To networkd cloud-init gives the key, not the match, and `all` is no name of a link.
    network = {"version": 2, "ethernets": {"e*": {"match": {"name": "e*"}, **asks}}}
    return Seed(user_data, meta_data, json.dumps(network) + "\n")


def hosts_file(hosts: Mapping[str, IPv4Address]) -> str:
    """Return the text of /etc/hosts of a machine that knows those of ``hosts`` by name."""
    lines = ["127.0.0.1 localhost", "::1 localhost", *(f"{at} {name}" for name, at in hosts.items())]
    return "".join(f"{line}\n" for line in lines)


def _file(file: File, content: str) -> dict[str, Any]:
    told = packed(content) if not file.is_base64 else content
    return {
        "path": file.path,
        "content": told,
        "encoding": "b64",
        "permissions": f"0{file.mode.lstrip('0') or '0'}",
        "owner": f"{file.owner}:{file.group}",
    }


def _text(path: str, content: str, mode: str = "0644") -> dict[str, Any]:
    return {"path": path, "content": content, "permissions": mode}
