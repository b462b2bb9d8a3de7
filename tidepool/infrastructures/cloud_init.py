"""A boot as user data of cloud-init: for machines that systemd starts, wherever they are.

Files are written once for each seed, which its digest names; folders, mounts and services are each boot's. Services are
units of systemd, in the order and with the promises of `boot`: the next one starts when the one before is ready. What is of a
role, services and mounts, is of its target, `tidepool-<role>.target`, and is started and stopped while the machine runs
(`tidepool.conversion.machine_agent`).
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Any, Final

from pulumi import Output

from tidepool.cluster.boot import Folder, Service, cloud_config
from tidepool.cluster.roles import marker
from tidepool.infrastructures.container import packed
from tidepool.infrastructures.contract import Boot, File

_LIBRARY: Final = "/usr/local/lib/tidepool"
_UNITS: Final = "/etc/systemd/system"
_TARGET: Final = "tidepool.target"
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
#: Waits until $1 is: path:FILE exists, unix:FILE is a socket, something listens on tcp:PORT. As long as the service lives that
#: is to make it so, where there is one: systemd waits for both, and starts none anew meanwhile.
_WAIT: Final = """\
#!/bin/sh
until case $1 in
    path:*) test -e "${1#path:}" ;;
    unix:*) test -S "${1#unix:}" ;;
    tcp:*) ss -Hltn "sport = :${1#tcp:}" | grep -q . ;;
    *) echo "$0: $1 is nothing to wait for" >&2; exit 2 ;;
esac; do
    test -z "$MAINPID" || test -d "/proc/$MAINPID" || exit 1
    sleep 0.2
done
"""
#: An address from the hardware address, of which it is the last four bytes (tidepool.cluster.addresses).
_ADDRESS: Final = """\
#!/bin/sh
set -eu
for link in ${2:-/sys/class/net}/*; do
    case $(cat "$link/address") in 02:74:*) ;; *) continue ;; esac
    hex=$(sed 's/^02:74:/0x/; s/:/ 0x/g' "$link/address")
    printf '[Match]\\nMACAddress=%s\\n[Network]\\nAddress=%d.%d.%d.%d/%s\\n' \\
        "$(cat "$link/address")" $hex "$1" >${3:-/etc/systemd/network}/05-tidepool.network
done
"""
#: Units that systemd has never read need no reading anew.
_ENABLE: Final = f"""\
link={_UNITS}/multi-user.target.wants/{_TARGET}
if [ -L "$link" ]; then systemctl daemon-reload; else ln -s {_UNITS}/{_TARGET} "$link"; fi
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
#: Each thing that is told is told once.
_SAY: Final = """\
told=
say() { [ "$told" = "$*" ] || echo "tidepool: $*"; told=$*; }
"""


#: Lines of shell by which a volume is mounted, by its source, its target and `ro` or `rw`. `say` tells people of it.
Mounting = Callable[[str, str, str], Sequence[str]]


def by_nfs(source: str, target: str, mode: str) -> Sequence[str]:
    """An export of a file server, which may be late. Of NFS before version 4 machines have no daemons."""
    at, told = shlex.quote(target), shlex.quote(f"mounts {source} at {target}")
    # It is tried again here, where why it does not work is told.
    mount = f"mount -t nfs4 -o {mode},hard,retry=0 {shlex.quote(source)} {at}"
    tries = f'until why=$({mount} 2>&1); do say {told}, and waits for it: "$why"; sleep 2; done'
    return [f"mountpoint -q {at} || {{ say {told}; {tries}; }}"]


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
        _text(f"{_LIBRARY}/wait", _WAIT, "0755"),
    ]
    found = (*(each.role for each in boot.services), *(each.role for each in boot.mounts))
    roles = [role for role in dict.fromkeys(found) if role]
    for role in ("", *roles):
        files += _of_role(role, boot, sources, surroundings.mounting, roles)
    others = (*_OF_THE_IMAGE, *(_OF_CONTAINERS if boot.containers else ()))
    # Reading all units anew is seconds where machines are emulated; here they are stopped before they are started.
    bootcmd: list[list[str]] = [["systemctl", "mask", "--now", "--no-reload", *others]]
    if surroundings.prefix is not None:
        files.append(_text(f"{_LIBRARY}/address", _ADDRESS, "0755"))
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
            ["systemctl", "start", "--no-block", _TARGET],
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


def _of_role(
    role: str, boot: Boot, sources: Sequence[str], mounting: Mounting, roles: Sequence[str]
) -> list[dict[str, Any]]:
    """The files by which a machine does what is of ``role``, or, where that is empty, of none, and leads to ``roles``."""
    prepare = f"prepare-{role}" if role else "prepare"
    mounts = [
        (source, mount) for mount, source in zip(boot.mounts, sources, strict=True) if mount.role == role
    ]
    lines = ["#!/bin/sh", "set -eu", _SAY]
    for source, mount in mounts:
        lines.append(f"mkdir -p {shlex.quote(mount.target)}")
        lines += mounting(source, mount.target, "ro" if mount.read_only else "rw")
    for folder in boot.folders:
        if _role_of(folder, boot) == role:
            lines += _folder(folder)
    services = [service for service in boot.services if service.role == role]
    names = [f"tidepool-{prepare}.service", *(f"tidepool-{service.name}.service" for service in services)]
    wanted = [*names, *([] if role else map(target_of, roles))]
    target = f"[Unit]\nDescription={f'All of the role {role}' if role else 'What this machine is for'}\nWants={' '.join(wanted)}\n"
    return [
        _text(f"{_LIBRARY}/{prepare}", "\n".join(lines) + "\n", "0755"),
        _text(f"{_UNITS}/{names[0]}", _prepare_unit(role, prepare, [mount.target for _, mount in mounts])),
        _text(
            f"{_UNITS}/{target_of(role) if role else _TARGET}",
            target + ("" if role else "[Install]\nWantedBy=multi-user.target\n"),
        ),
        *(
            _text(f"{_UNITS}/{name}", _unit(service, after))
            for service, name, after in zip(services, names[1:], names, strict=False)
        ),
    ]


def target_of(role: str) -> str:
    """Return the name of the unit that wants all services of a role."""
    return f"tidepool-{role}.target"


def _role_of(folder: Folder, boot: Boot) -> str:
    """The role of the volume that a folder is in."""
    path = PurePosixPath(folder.path)
    return next((mount.role for mount in boot.mounts if path.is_relative_to(mount.target)), "")


def _folder(folder: Folder) -> list[str]:
    path = shlex.quote(folder.path)
    return [
        f"mkdir -p {path}",
        f"chown {shlex.quote(folder.owner)}:{shlex.quote(folder.group)} {path}",
        f"chmod {folder.mode} {path}",
    ]


def _prepare_unit(role: str, name: str, targets: Sequence[str]) -> str:
    """Each boot's, or each time's that the machine takes the role: /run is empty then, and file servers may be late."""
    lines = ["[Unit]", f"Description=Folders and shared file systems of {role or 'this machine'}"]
    if role:
        # Who loses the role sees none of its files any more, in whatever process.
        lines += ["After=tidepool-prepare.service", f"ConditionPathExists={marker(role)}"]
    else:
        lines += ["Wants=network-online.target", "After=network-online.target"]
    lines += ["[Service]", "Type=oneshot", "RemainAfterExit=yes", f"ExecStart={_LIBRARY}/{name}"]
    if role:
        lines += [f"ExecStop=-/bin/umount --lazy {_quoted(target)}" for target in reversed(targets)]
    # All else waits for it, SSH too: the console is where a person can see what for.
    return "\n".join([*lines, "TimeoutStartSec=infinity", "StandardOutput=journal+console"]) + "\n"


def _unit(service: Service, after: str) -> str:
    lines = [
        "[Unit]",
        f"Description={service.name}",
        f"After={after}",
        *([f"ConditionPathExists={marker(service.role)}"] if service.role else []),
        # A service that ends is started again for as long as it takes.
        "StartLimitIntervalSec=0",
        "[Service]",
        f"Type={'oneshot' if service.once else 'exec'}",
        f"User={service.user}",
        # What a role has begun, all of it, is known by its group.
        *([f"Slice=tidepool-{service.role}.slice"] if service.role else []),
        "TimeoutStartSec=infinity",
        f"TimeoutStopSec={service.stop_timeout_s:g}",
        "LimitMEMLOCK=infinity",
        "Delegate=yes",
        # Jobs outlive a slurmd that is started again, and people's sessions an sshd.
        "KillMode=process",
    ]
    lines += ["RemainAfterExit=yes"] if service.once else [f"Restart={service.restart}", "RestartSec=1"]
    if service.begins:
        lines.append(f"ExecStartPre={_LIBRARY}/wait {_quoted(service.begins)}")
    lines.append("ExecStart=" + " ".join(map(_quoted, service.argv)))
    if service.ready != "started":
        lines.append(f"ExecStartPost={_LIBRARY}/wait {_quoted(service.ready)}")
    return "\n".join(lines) + "\n"


def _quoted(word: str) -> str:
    """A word of a unit's command: systemd takes $, % and backslashes for its own, within quotes too."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("$", "$$").replace("%", "%%") + '"'


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
