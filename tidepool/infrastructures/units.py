"""A boot's services as units of systemd, in the order and with the promises of `boot`: the next starts when the one before is ready.

What is of a role, services, folders and mounts, is of its target, `tidepool-<role>.target`, and is started and stopped while
the machine runs (`tidepool.conversion.machine_agent`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from tidepool.cluster.boot import Boot, File, Folder, Service
from tidepool.cluster.roles import marker

LIBRARY: Final = "/usr/local/lib/tidepool"
UNITS: Final = "/etc/systemd/system"
#: What of no role is wanted by, and the targets of roles.
TARGET: Final = "tidepool.target"
#: Waits until $1 is: path:FILE exists, unix:FILE is a socket, something listens on tcp:PORT. As long as the service lives that
#: is to make it so, where there is one: systemd waits for both, and starts none anew meanwhile. By what the shell itself can: where
#: machines are emulated, `ss` is half a second, each time.
WAIT: Final = """\
#!/bin/sh
# The sockets of a table of the kernel's: of one that listens at the port $1 the state is 0A.
listens() {
    while read -r _ at _ state _; do
        case "$at $state" in *":$1 0A") return 0 ;; esac
    done
    return 1
}
case $1 in tcp:*) port=$(printf %04X "${1#tcp:}") ;; esac
until case $1 in
    path:*) test -e "${1#path:}" ;;
    unix:*) test -S "${1#unix:}" ;;
    tcp:*) { listens "$port" </proc/net/tcp || listens "$port" </proc/net/tcp6; } 2>/dev/null ;;
    *) echo "$0: $1 is nothing to wait for" >&2; exit 2 ;;
esac; do
    test -z "$MAINPID" || test -d "/proc/$MAINPID" || exit 1
    sleep 0.2
done
"""
#: Each thing that is told is told once.
_SAY: Final = """\
told=
say() { [ "$told" = "$*" ] || echo "tidepool: $*"; told=$*; }
"""


#: Lines of shell by which a volume is mounted, by its source, its target and `ro` or `rw`. `say` tells people of it.
Mounting = Callable[[str, str, str], Sequence[str]]


def files_of_role(
    role: str, boot: Boot[Any], sources: Sequence[str], mounting: Mounting, roles: Sequence[str]
) -> list[File[str]]:
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
        if role_of(folder, boot) == role:
            lines += _folder(folder)
    services = [service for service in boot.services if service.role == role]
    names = [f"tidepool-{prepare}.service", *(f"tidepool-{service.name}.service" for service in services)]
    wanted = [*names, *([] if role else map(target_of, roles))]
    target = f"[Unit]\nDescription={f'All of the role {role}' if role else 'What this machine is for'}\nWants={' '.join(wanted)}\n"
    return [
        File(f"{LIBRARY}/{prepare}", "\n".join(lines) + "\n", "0755"),
        File(f"{UNITS}/{names[0]}", _prepare_unit(role, prepare, [mount.target for _, mount in mounts])),
        File(
            f"{UNITS}/{target_of(role) if role else TARGET}",
            target + ("" if role else "[Install]\nWantedBy=multi-user.target\n"),
        ),
        *(
            File(f"{UNITS}/{name}", _unit(service, after))
            for service, name, after in zip(services, names[1:], names, strict=False)
        ),
    ]


def target_of(role: str) -> str:
    """Return the name of the unit that wants all services of a role."""
    return f"tidepool-{role}.target"


def role_of(folder: Folder, boot: Boot[Any]) -> str:
    """Its own, or that of the volume that it is in."""
    if folder.role:
        return folder.role
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
    lines += ["[Service]", "Type=oneshot", "RemainAfterExit=yes", f"ExecStart={LIBRARY}/{name}"]
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
        lines.append(f"ExecStartPre={LIBRARY}/wait {_quoted(service.begins)}")
    lines.append("ExecStart=" + " ".join(map(_quoted, service.argv)))
    if service.ready != "started":
        lines.append(f"ExecStartPost={LIBRARY}/wait {_quoted(service.ready)}")
    return "\n".join(lines) + "\n"


def _quoted(word: str) -> str:
    """A word of a unit's command: systemd takes $, % and backslashes for its own, within quotes too."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("$", "$$").replace("%", "%%") + '"'
