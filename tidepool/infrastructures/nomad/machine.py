"""A machine as jobs of Nomad make it, and the programs by which a host becomes one for as long as a job is on it.

A machine is namespaces of the host: its name, and file systems of its own over the host's. Its task `machine` makes and
holds them; daemons enter them. What the host had in /etc stays as it was.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tidepool.cluster.boot import File, Folder, Mount, Service

#: A file, whose content is None where a variable of Nomad has it.
MachineFile: TypeAlias = File[str | None]


@dataclass(frozen=True, slots=True)
class Machine:
    """The boot of machines that are alike, as jobs have it. No secret is in it, only where one is.

    ``live`` are files that are changed while it runs: who begins with one of them reads them again.
    """

    daemons: tuple[Service, ...]
    files: tuple[MachineFile, ...] = ()
    live: tuple[MachineFile, ...] = ()
    folders: tuple[Folder, ...] = ()
    mounts: tuple[Mount[str], ...] = ()


#: What this one starts goes on when it is started anew: jobs.
_LEAVES_CHILDREN: Final = "slurmd"

#: Where a machine is held, by its allocation. In memory: keys are there.
_PLACE: Final = 'place=/run/tidepool/"$NOMAD_ALLOC_ID"'
_INSIDE: Final = 'nsenter --mount="$place/mnt" --uts="$place/uts" --'
_HEAD: Final = f"#!/bin/sh\nset -eu\n{_PLACE}\n"

#: Waits until $1 is: path:FILE exists, somebody listens at unix:SOCKET, or on tcp:PORT.
_WAIT: Final = """\
wait_for() {
    until case $1 in
        path:*) nsenter --mount="$place/mnt" -- test -e "${1#path:}" ;;
        unix:*) ss -Hlx src "${1#unix:}" | grep -q . ;;
        tcp:*) ss -Hltn "sport = :${1#tcp:}" | grep -q . ;;
        *) echo "$1 is nothing to wait for" >&2; exit 2 ;;
    esac; do sleep 0.2; done
}
"""
_REQUESTS: Final = "/run/tidepool/start"
#: Runs $@, and ends as it does; after one that ended well it waits until $asked is there, and runs it again. Nomad starts a main
#: task of a service anew however it ended: what ended on purpose is held here, and the task goes on. It is told to stop by SIGTERM.
_HOLD: Final = """\
hold() {
    child= ending=
    trap 'ending=1; test -z "$child" || kill -TERM "$child" 2>/dev/null' TERM
    while :; do
        rm -f "$asked"
        "$@" &
        child=$!
        echo "$child" >"$NOMAD_TASK_DIR/pid"
        ended=0
        wait "$child" || ended=$?
        while kill -0 "$child" 2>/dev/null; do ended=0; wait "$child" || ended=$?; done
        child=
        rm -f "$NOMAD_TASK_DIR/pid"
        test -z "$ending" && test "$ended" = 0 || exit "$ended"
        echo "it ended on purpose, and is started again when $asked is there"
        until test -e "$asked"; do
            test -z "$ending" || exit 0
            sleep 0.2
        done
    done
}
"""
#: Nomad lets a task have no more memory than it reserves: the daemons of a cluster, and who has logged in there, have the host's.
UNLIMITED: Final = """\
while IFS=: read -r _ of path; do
    case $of in
        memory) limit=/sys/fs/cgroup/memory$path/memory.limit_in_bytes none=-1 ;;
        "") limit=/sys/fs/cgroup$path/memory.max none=max ;;
        *) continue ;;
    esac
    test ! -e "$limit" || echo "$none" >"$limit"
done </proc/self/cgroup"""
#: Out of the task's cgroup: Nomad kills all that is in it when the task ends.
_LEAVE: Final = """\
for procs in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do
    test ! -e "$procs" || echo $$ >"$procs" || true
done"""


def machine_script(mounts: Sequence[Mount[str]], folders: Sequence[Folder]) -> str:
    """Makes the machine $MACHINE with $ADDRESS (or none) on $INTERFACE, holds it, and takes it away when it is stopped."""
    inside = ['test -z "$MACHINE" || hostname "$MACHINE"', 'mkdir -p "$place/etc" "$place/work"']
    inside.append('mount -t overlay -o "lowerdir=/etc,upperdir=$place/etc,workdir=$place/work" overlay /etc')
    for mount in mounts:
        source, target = shlex.quote(mount.source), shlex.quote(mount.target)
        options = " -o ro" if mount.read_only else ""
        # A folder over itself is there already.
        inside.append(f"mkdir -p {target}")
        if mount.source != mount.target:
            inside.append(f"mount --bind{options} {source} {target}")
    # Where daemons are asked for, by a file of their name: each machine's own.
    inside += [f'mkdir -p "$place/start" {_REQUESTS}', f'mount --bind "$place/start" {_REQUESTS}']
    inside += [
        f"install -d -m {folder.mode} -o {shlex.quote(folder.owner)} -g {shlex.quote(folder.group)} "
        f"{shlex.quote(folder.path)}"
        for folder in folders
    ]
    made = shlex.quote("\n" + "".join(f"    {line}\n" for line in inside))
    return f"""\
{_HEAD}export place
leave() {{
    trap - EXIT
    rm -f "$place/made"
    test -z "$ADDRESS" || ip address del "$ADDRESS" dev "$INTERFACE" || true
    umount "$place/mnt" "$place/uts" || true
    umount "$place" || true
    rm -rf "$place"
}}
trap leave EXIT
trap 'exit 0' TERM INT
mkdir -p -m 0700 "$place"
# What was left by one that was killed.
rm -f "$place/made"
while mountpoint -q "$place"; do umount -R "$place"; done
mount --bind "$place" "$place"
# Namespaces are kept by mounts that nobody else sees. Linux 6.18 numbers them by processor, and refuses to keep one whose number
# is less than that of the one it is kept in: another one may have more.
mount --make-private "$place"
touch "$place/mnt" "$place/uts"
tries=100
until unshare --mount="$place/mnt" --uts="$place/uts" --propagation slave true 2>"$place/why"; do
    umount "$place/uts" 2>/dev/null || true
    : $((tries -= 1))
    test "$tries" -gt 0 || {{ cat "$place/why" >&2; exit 1; }}
done
{_INSIDE} sh -euc {made}
sh "$NOMAD_TASK_DIR/install"
test -z "$ADDRESS" || ip address replace "$ADDRESS" dev "$INTERFACE"
touch "$place/made"
while :; do sleep 3600 & wait $! || true; done
"""


def install_script(files: Sequence[tuple[str, MachineFile]]) -> str:
    """Puts files where the machine has them: each from a name in the task's folder, by a rename."""
    lines = []
    for source, file in files:
        new = shlex.quote(f"{file.path}.new")
        # Opened outside: the folder of secrets was mounted later than the machine was made, and is not there inside.
        lines.append(
            f"{_INSIDE} install -D -m {file.mode} -o {shlex.quote(file.owner)} -g {shlex.quote(file.group)} "
            f'/dev/stdin {new} <"{source}"'
        )
        lines.append(f"{_INSIDE} mv -f {new} {shlex.quote(file.path)}")
    return _HEAD + "".join(f"{line}\n" for line in lines)


def run_script(daemon: Service, before: Sequence[Service], after: str) -> str:
    """Starts ``daemon`` in the machine when ``after`` (or nothing) is so, with the commands ``before`` it that run once."""
    lines = [UNLIMITED, 'until test -e "$place/made"; do sleep 0.2; done', 'sh "$NOMAD_TASK_DIR/install"']
    lines += [f"wait_for {shlex.quote(what)}" for what in (after, daemon.begins) if what]
    lines += [f"{_INSIDE} {_as(each)}" for each in before]
    if daemon.name == _LEAVES_CHILDREN:
        lines.append(_LEAVE)
    starts = f"{_INSIDE} {_as(daemon)}"
    if daemon.restart == "always":
        # By it a change of its files is told.
        lines += ['echo $$ >"$NOMAD_TASK_DIR/pid"', f"exec {starts}"]
        return _HEAD + _WAIT + "".join(f"{line}\n" for line in lines)
    lines += [f'asked="$place/start/{daemon.name}"', f"hold {starts}"]
    return _HEAD + _WAIT + _HOLD + "".join(f"{line}\n" for line in lines)


def changed_script() -> str:
    """Has a daemon read its files again, which are others now. One that does not run reads them when it starts."""
    tell = 'test ! -e "$NOMAD_TASK_DIR/pid" || kill -HUP "$(cat "$NOMAD_TASK_DIR/pid")"'
    return f'{_HEAD}sh "$NOMAD_TASK_DIR/install"\n{tell}\n'


def wait_script(what: str) -> str:
    """Ends when ``what`` is so."""
    return f"{_HEAD}{_WAIT}wait_for {shlex.quote(what)}\n"


def _as(daemon: Service) -> str:
    command = shlex.join(daemon.argv)
    if daemon.user == "root":
        return command
    user = shlex.quote(daemon.user)
    return f'setpriv --reuid {user} --regid "$(id -g {user})" --init-groups -- {command}'


def port_of(daemon: Service) -> int | None:
    """Return the port that a daemon listens on, where it says so."""
    kind, _, number = daemon.ready.partition(":")
    return int(number) if kind == "tcp" else None


def item_of(file: File[Any]) -> str:
    """Return the name of a file in a variable."""
    return re.sub(r"[^A-Za-z0-9]+", "_", file.path).strip("_")
