"""Files, packages and mounts that a host has."""

from __future__ import annotations

import os
import stat
import subprocess
from typing import TYPE_CHECKING

from tidepool.infrastructures.ssh.keeper.paths import ALSO, LEAVE_OUT, OWN_DISKS, ROOT, SHALLOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tidepool.infrastructures.ssh.keeper.changes import Entry


def observe() -> dict[str, Any]:
    return {"files": dict(walk()), "packages": installed(), "mounts": mounts()}


def walk() -> Iterator[tuple[str, Entry]]:
    others = {target for target, kind in mounted() if kind not in OWN_DISKS}
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
