"""Undoing of what playbooks changed, and of nothing else: what others did since stays, and is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

from tidepool.infrastructures.ssh.keeper.listing import (
    BY_LINES,
    DAEMONS,
    LINKS,
    REMADE,
    ROOT,
    SHALLOW,
    WHOLE,
    describe,
    differ,
    in_order,
    installed,
    is_below,
    merged,
    mounts,
    others_purged,
    settings,
)
from tidepool.infrastructures.ssh.keeper.store import saved_at

if TYPE_CHECKING:
    from typing import Any

    from tidepool.infrastructures.ssh.keeper.listing import Entry

#: What ends with a node lets go of its files within this time.
UNMOUNT_S = 5.0


def stop_services() -> None:
    folder = ROOT + "/etc/systemd/system" if os.path.isdir("/run/systemd/system") else ROOT + "/etc/init.d"
    names = (
        [name for name in os.listdir(folder) if name.startswith("tidepool-")] if os.path.isdir(folder) else []
    )
    for name in in_order(names):
        if name.endswith(".service"):
            subprocess.run(["systemctl", "disable", "--now", name], stderr=subprocess.DEVNULL)
        elif name.endswith(".target"):
            subprocess.run(["systemctl", "stop", name], stderr=subprocess.DEVNULL)
        elif folder.endswith("init.d"):
            subprocess.run([os.path.join(folder, name), "stop"], stdout=subprocess.DEVNULL)
            subprocess.run(["update-rc.d", "-f", name, "remove"], stdout=subprocess.DEVNULL)
    # Who may not write in /run leaves its number there, and scripts of packages would take it to run still.
    for name in DAEMONS:
        number = ROOT + "/run/%s.pid" % name
        if os.path.lexists(number) and not runs(name, number):
            os.unlink(number)


def runs(name: str, number: str) -> bool:
    """Return whether the process of the file ``number`` is one of that name: somebody's own, which we did not end."""
    try:
        with open(number) as file, open("/proc/%d/comm" % int(file.read())) as comm:
            return comm.read().strip() == name
    except (OSError, ValueError):
        return False


def unmount(targets: list[str]) -> list[str]:
    """The deepest first. What somebody still has open stays, and so does all below it."""
    ours = sorted({*targets} & set(mounts()), key=len, reverse=True)
    for target in ours:
        deadline = time.monotonic() + UNMOUNT_S
        while subprocess.run(["umount", ROOT + target], stderr=subprocess.DEVNULL).returncode:
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
    return ["%s: it is in use, and mounted still" % each for each in ours if each in mounts()]


def purge(packages: list[str]) -> list[str]:
    there = sorted({*packages} & set(installed()))
    if not there:
        return []
    simulated = subprocess.run(
        ["apt-get", "--simulate", "purge", *there], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    others = others_purged(simulated.stdout.decode(), there)
    if others or simulated.returncode:
        why = "%s need them now" % ", ".join(others) if others else simulated.stdout.decode().strip()[-300:]
        return ["the packages %s: %s" % (", ".join(there), why)]
    done = subprocess.run(
        ["apt-get", "--yes", "--quiet", "purge", *there],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"),
    )
    return ["the packages: " + done.stdout.decode().strip()[-300:]] if done.returncode else []


def restore(before: dict[str, Any], done: dict[str, Any]) -> list[str]:
    kept = []
    there = mounts()
    # On what came since, paths are of another disk: nothing of that was listed, and nothing is ours.
    others = set(there) - set(before["mounts"])
    for path in reversed(done["new"]):
        if not is_below(path, others):
            kept += take_away(path, there)
        elif path in others and path not in done["mounts"]:
            kept.append("%s: something is mounted there" % path)
    for path in done["gone"]:
        if not is_below(path, others) and not os.path.lexists(ROOT + path):
            put_back(path, before["files"][path])
    for path, left in done["changed"].items():
        if not is_below(path, others):
            kept += undo(path, before["files"][path], left, done["lines"].get(path, ()))
    return kept


def reset(before: dict[str, str]) -> None:
    """Settings of the kernel, as they were: of hosts that were never a pool's, they are."""
    for path, value in settings().items():
        if path in before and before[path] != value:
            with open(ROOT + path, "w") as file:
                file.write(before[path])


def take_away(path: str, mounted: list[str]) -> list[str]:
    place = ROOT + path
    if not os.path.lexists(place):
        return []
    if any(is_below(each, [path]) for each in mounted):
        return ["%s: something is mounted below it" % path]
    if os.path.isdir(place) and not os.path.islink(place):
        if os.path.dirname(path) in SHALLOW - {"/run"} and path not in WHOLE and somebodys(place):
            return ["%s: somebody's files are in it" % path]
        shutil.rmtree(place, ignore_errors=True)
    else:
        os.unlink(place)
        folder = os.path.dirname(place)
        if path in LINKS and not os.listdir(folder):
            os.removedirs(folder)
    return []


def somebodys(folder: str) -> bool:
    """Return whether there is more in it than what every home has at first."""
    skeleton = set(os.listdir(ROOT + "/etc/skel")) if os.path.isdir(ROOT + "/etc/skel") else set()
    return bool(set(os.listdir(folder)) - skeleton)


def undo(path: str, old: Entry, left: Entry, lines: list[str]) -> list[str]:
    place = ROOT + path
    if path in REMADE:
        subprocess.run(["ldconfig"])
        return []
    if not os.path.lexists(place):
        put_back(path, old)
        return []
    now = describe(place, os.lstat(place))
    if path in BY_LINES and old[0] == "f":
        merge(path, old, lines)
    elif not differ(now, left) or old[0] == "d" or path.endswith("-"):
        # As it was left, so nobody else has a share in it. (Those with a dash are the tools' own copies of accounts.)
        put_back(path, old)
    elif differ(now, old):
        return ["%s: somebody changed it since; what was there before is gone with the claim" % path]
    return []


def merge(path: str, old: Entry, left: list[str]) -> None:
    """Without our lines, and with all that others added since."""
    place = ROOT + path
    with open(saved_at(path), errors="surrogateescape") as was, open(place, errors="surrogateescape") as now:
        before, lines = was.read().splitlines(True), now.read().splitlines(True)
    rest = merged(before, left, lines)
    if rest == before:
        put_back(path, old)
    else:
        with open(place, "w", errors="surrogateescape") as file:
            file.write("".join(rest))


def put_back(path: str, old: Entry) -> None:
    place = ROOT + path
    kind, mode, uid, gid = old[:4]
    if kind == "o" or (kind == "f" and not os.path.exists(saved_at(path))):
        return  # there is nothing to make it of
    if os.path.lexists(place) and kind != "d":
        if os.path.isdir(place) and not os.path.islink(place):
            shutil.rmtree(place)
        else:
            os.unlink(place)
    if kind == "d":
        os.makedirs(place, exist_ok=True)
    elif kind == "l":
        os.symlink(old[4], place)
        os.lchown(place, uid, gid)
        return
    else:
        shutil.copyfile(saved_at(path), place)
    os.chown(place, uid, gid)
    os.chmod(place, mode)
    if kind == "f":
        os.utime(place, ns=(old[5], old[5]))
