"""Files, packages and mounts of a host: what of them playbooks may change, what there is, and what changed since a claim."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    #: Kind, mode, owner, group; of a file its size and time, of a link what it leads to.
    Entry = list[Any]

ROOT = os.environ.get("TIDEPOOL_KEEPER_ROOT", "")  # of tests
PLACE = ROOT + "/var/lib/tidepool-node"
#: In /run, which is nobody's to restore: a lock that is taken away is none.
LOCK = ROOT + "/run/tidepool-node.lock"
#: What playbooks never change: the kernel's, packages' own (dpkg takes them away), caches, and what is written all the time.
LEAVE_OUT = {
    "/proc", "/sys", "/dev", "/tmp", "/var/tmp", "/usr", "/boot", "/lost+found", "/var/lib/dpkg", "/var/lib/apt",
    "/var/cache", "/var/lib/tidepool-node", "/var/lib/docker", "/var/lib/containerd", "/var/log/journal", "/var/log/apt",
    "/run/tidepool-node.lock", "/run/lock", "/run/user", "/run/sudo",
}  # fmt: skip
ALSO = ("/usr/local",)
#: Links of the role mpi among files of packages: for them dpkg leaves the folders.
LINKS = ["/usr/lib/x86_64-linux-gnu/%s/lib/libpmix.so" % name for name in ("pmix", "pmix2")]
#: Of a pool's hosts among files of packages, and of what its programs make when they run: those that are new are ours, with all that
#: is in them.
WHOLE = [
    "/usr/bin/kubelet", "/usr/share/tidepool", "/usr/libexec/kubernetes", "/var/lib/containerd", "/opt/containerd",
]  # fmt: skip
#: Settings of the kernel that a kubelet and its network make, by their files.
SETTINGS = ["/proc/sys/" + name for name in (
    "net/ipv4/ip_forward", "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
)]  # fmt: skip
#: Of what people write themselves, only who has a folder.
SHALLOW = {"/home", "/srv", "/mnt", "/media", "/data", "/scratch", "/run", "/root", "/opt"}
#: Whose bytes are kept.
SAVED = ("/etc", "/usr/local")
#: Lines of their own, to which others may have been added meanwhile.
BY_LINES = {
    "/etc/" + name for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid", "hosts", "fstab")
}
#: Made anew by whoever needs them.
REMADE = {"/etc/ld.so.cache"}
DAEMONS = ("munged", "slurmd", "slurmctld", "slurmdbd", "kubelet")
#: File systems of a host's own disks. What is on others is somebody's whom other hosts know as well.
OWN_DISKS = {"btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "tmpfs", "xfs", "zfs"}


def observe() -> dict[str, Any]:
    return {
        "files": dict(walk()),
        "links": LINKS + WHOLE,
        "packages": installed(),
        "mounts": mounts(),
        "settings": settings(),
        "devices": devices(),
    }


def walk() -> Iterator[tuple[str, Entry]]:
    others = {target for target, kind in mounted() if kind not in OWN_DISKS}
    for link in LINKS:
        if os.path.islink(ROOT + link):
            yield link, describe(ROOT + link, os.lstat(ROOT + link))
    for path in WHOLE:
        for each in [path] + [path + "/" + name for name in names_in(path)]:
            if os.path.lexists(ROOT + each):
                yield each, describe(ROOT + each, os.lstat(ROOT + each))
    for top in ("/",) + ALSO:
        for path, entry in below(top, others):
            yield path, entry


def below(path: str, others: set[str]) -> Iterator[tuple[str, Entry]]:
    """All that there is below a path, but on disks of ``others``."""
    try:
        there = sorted(os.scandir(ROOT + path), key=lambda each: each.name)
    except OSError:
        return
    device = os.stat(ROOT + path).st_dev
    for each in there:
        name = path.rstrip("/") + "/" + each.name
        if name in LEAVE_OUT:
            continue
        try:
            status = each.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if not logged(name):
            yield name, describe(ROOT + name, status)
        deeper = stat.S_ISDIR(status.st_mode) and path not in SHALLOW and name not in others
        if deeper and (status.st_dev == device or name in SHALLOW):
            for found in below(name, others):
                yield found


def logged(name: str) -> bool:
    """Files that grow by themselves."""
    folder = os.path.dirname(name)
    return folder == "/var/log" and os.path.isfile(ROOT + name)


def describe(path: str, status: os.stat_result) -> Entry:
    kind = "d" if stat.S_ISDIR(status.st_mode) else "l" if stat.S_ISLNK(status.st_mode) else "f" if stat.S_ISREG(
        status.st_mode
    ) else "o"  # fmt: skip
    base = [kind, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid]
    if kind == "l":
        return base + [os.readlink(path)]
    return base + ([status.st_size, status.st_mtime_ns] if kind == "f" else [])


def installed() -> list[str]:
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package}:${Architecture}\n"], stdout=subprocess.PIPE
    )
    lines = (line.split() for line in done.stdout.decode().splitlines())
    return [each[1].replace(":all", "") for each in lines if len(each) == 2 and each[0].startswith("i")]


def settings() -> dict[str, str]:
    found = {}
    for path in SETTINGS:
        try:
            with open(ROOT + path) as file:
                found[path] = file.read().strip()
        except OSError:
            continue  # a kernel without it
    return found


def devices() -> list[str]:
    return names_in("/sys/class/net")


def names_in(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(ROOT + folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def mounts() -> list[str]:
    return [target for target, _ in mounted()]


def mounted() -> list[tuple[str, str]]:
    """Return the mount points, each with its kind."""
    with open("/proc/self/mountinfo") as lines:
        split = [line.split() for line in lines]
    return [
        (each[4][len(ROOT) :], each[each.index("-", 6) + 1])
        for each in split
        if each[4].startswith(ROOT + "/")
    ]


def changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    inside = tuple(path + "/" for path in WHOLE)
    old, new = (
        {path: entry for path, entry in each["files"].items() if not path.startswith(inside)}
        for each in (before, after)
    )
    # Earlier releases did not look at them: what is there may have been there. Of hosts that are no pool's, `WHOLE` is theirs; of others
    # all that came of it goes, noted or not.
    unseen = set(LINKS) - set(before.get("links", ())) | set(WHOLE)
    return {
        "new": sorted(set(new) - set(old) - unseen),
        "changed": {
            path: new[path]
            for path in sorted(set(new) & set(old))
            if differ(old[path], new[path]) and restorable(path, old[path])
        },
        "gone": sorted(set(old) - set(new)),
        "packages": sorted(set(after["packages"]) - set(before["packages"])),
        "mounts": sorted(set(after["mounts"]) - set(before["mounts"])),
    }


def restorable(path: str, old: Entry) -> bool:
    """Return whether it can be as it was: of files whose bytes nobody kept, and of what runs, changes are the host's own."""
    return not is_below(path, ["/run"]) and (old[0] in "dl" or (old[0] == "f" and is_below(path, SAVED)))


def differ(old: Entry, new: Entry) -> bool:
    """Return whether two entries differ: of a folder, only in who has it, for its time is of those within."""
    return old[:4] != new[:4] if old[0] == new[0] == "d" else old != new


def is_below(path: str, tops: Iterable[str]) -> bool:
    """Return whether it is one of those, or below one."""
    return any(path == top or path.startswith(top + "/") for top in tops)


def merged(before: list[str], left: list[str], now: list[str]) -> list[str]:
    """The lines ``now`` without ours, which are in ``left`` and not in ``before``, and with all that others added since."""
    ours, known = set(left) - set(before), set(before)
    theirs = [line for line in now if line not in ours and line not in known]
    # What others took away stays away; what we changed of a line that was there is as it was.
    taken = {line for line in before if line in left and line not in now}
    return [line for line in before if line not in taken] + theirs


def in_order(services: Iterable[str]) -> list[str]:
    """As they are ended: what others stand on goes last."""
    last = ("tidepool-munged", "tidepool-prepare", "tidepool-firewall")
    return sorted(services, key=lambda name: (name.startswith(last), name.startswith(last[1:]), name))


def others_purged(simulated: str, packages: list[str]) -> list[str]:
    """Return the packages that would go as well, by what apt-get says of a purge of ``packages``."""
    would = set(re.findall(r"(?m)^Purg (\S+)", simulated))
    return sorted(would - {name.partition(":")[0] for name in packages} - {*packages})
