"""The verbs: facts of a host, and whose it is: claimed, noted what playbooks changed, given back. `main` runs one."""

from __future__ import annotations

import json
import os
import platform
import pwd
import re
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tidepool.infrastructures.ssh.keeper.listing import (
    BY_LINES,
    DAEMONS,
    PLACE,
    ROOT,
    SAVED,
    changes,
    devices,
    installed,
    names_in,
    observe,
)
from tidepool.infrastructures.ssh.keeper.roles import end_roles
from tidepool.infrastructures.ssh.keeper.store import Locked, preserve, read, write
from tidepool.infrastructures.ssh.keeper.undoing import purge, reset, restore, stop_services, unmount

if TYPE_CHECKING:
    from typing import Any


def main(argv: list[str]) -> None:
    verb, told = argv[1], json.loads(argv[2])
    if verb == "facts":
        answer = facts(told)
    else:
        with Locked():
            answer = {"claim": claim, "note": note, "release": release}[verb](told)
    sys.stdout.write(json.dumps(answer) + "\n")


def facts(told: dict[str, Any]) -> dict[str, Any]:
    with open("/proc/meminfo") as lines:
        memory = int(next(line for line in lines if line.startswith("MemTotal")).split()[1]) // 1024
    return {
        "claim": read("claim.json"),
        "os": os_release(),
        "architecture": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mib": memory,
        "python": list(sys.version_info[:2]),
        "tools": [
            name
            for name in ("apt-get", "unshare", "setpriv", "ip", "mount", "start-stop-daemon")
            if shutil.which(name)
        ],
        "daemons": sorted(name for name in DAEMONS if runs(name)),
        "users": {
            name: [each.pw_uid, each.pw_gid] for name in told.get("users", ()) for each in users(name=name)
        },
        "numbers": {
            str(number): each.pw_name for number in told.get("numbers", ()) for each in users(number=number)
        },
        "addresses": addresses(),
        "controllers": controllers(),
        "systemd": os.path.isdir("/run/systemd/system"),
        "taken": taken(told["of_roles"]) if "of_roles" in told else [],
    }


def taken(told: dict[str, Any]) -> list[str]:
    """Return what is the host's own of what a pool's host gets with a role and loses with it; of a claimed host, what was there before."""
    before = read("before.json") if read("claim.json") else None
    if before is None:
        there = [path for path in told["places"] if os.path.isfile(ROOT + path) or names_in(ROOT + path)]
        before = {"packages": installed(), "devices": devices()}
    else:
        files = before["files"]
        filled = {os.path.dirname(path) for path in files}
        there = [
            path for path in told["places"] if path in files and (files[path][0] != "d" or path in filled)
        ]
    packages = {name.partition(":")[0] for name in before["packages"]} & set(told["packages"])
    links = [name for name in before.get("devices", ()) if name.startswith(tuple(told["links"]))]
    return (
        there
        + ["the package " + name for name in sorted(packages)]
        + ["the network device " + name for name in links]
    )


def os_release() -> dict[str, str]:
    with open(ROOT + "/etc/os-release") as lines:
        pairs = (line.rstrip("\n").partition("=") for line in lines)
        return {
            key: value.strip("\"'") for key, _, value in pairs if key in ("ID", "VERSION_ID", "PRETTY_NAME")
        }


def runs(name: str) -> bool:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % pid) as comm:
                if comm.read().strip() == name:
                    return True
        except OSError:
            continue  # it ended meanwhile
    return False


def users(name: str | None = None, number: int = 0) -> list[pwd.struct_passwd]:
    try:
        return [pwd.getpwnam(name) if name is not None else pwd.getpwuid(number)]
    except KeyError:
        return []


def addresses() -> list[str]:
    done = subprocess.run(
        ["ip", "-o", "-4", "addr", "show"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    return re.findall(r"inet ([0-9.]+)/", done.stdout.decode())


def controllers() -> list[str]:
    """Controllers of control groups that root can use here; version 2 has a freezer and devices built in."""
    top = "/sys/fs/cgroup/"
    try:
        with open(top + "cgroup.controllers") as file:
            return file.read().split() + ["devices", "freezer"] if os.access(top, os.W_OK) else []
    except OSError:
        names = os.listdir(top) if os.path.isdir(top) else []
        return [name for name in names if os.access(top + name + "/cgroup.procs", os.W_OK)]


def claim(told: dict[str, Any]) -> dict[str, Any]:
    key, there = told["key"], read("claim.json")
    if there and there["key"] != key:
        return {"claimed_by": there["key"]}
    if there and there["state"] == "releasing":
        # It was cut off while it was given back: that comes to its end first.
        release(told)
        there = None
    if not there:
        os.makedirs(PLACE, mode=0o700, exist_ok=True)
        # A number of its own: the same node on the same host again is another machine.
        fresh = {
            "key": key,
            "state": "claiming",
            "address": told.get("address", ""),
            "id": os.urandom(8).hex(),
            "since": int(time.time()),
        }
        write("claim.json", fresh)
        there = read("claim.json")
    if there["state"] == "claiming":
        # Nothing was changed yet, so this is what was there, however often it is asked for.
        before = observe()
        for path, entry in before["files"].items():
            if entry[0] == "f" and path.startswith(tuple(root + "/" for root in SAVED)):
                preserve(path)
        write("before.json", before)
        write("claim.json", dict(there, state="claimed"))
    return {"claimed_by": key, "id": there["id"]}


def note(told: dict[str, Any]) -> dict[str, Any]:
    there = read("claim.json")
    if not there or there["key"] != told["key"]:
        return {"noted": False}
    write_note(changes(read("before.json"), observe()))
    return {"noted": True}


def write_note(done: dict[str, Any]) -> dict[str, Any]:
    """Beside what changed, the lines of the files that others add lines to, as they were left."""
    lines = {}
    for path in BY_LINES & set(done["changed"]):
        with open(ROOT + path, errors="surrogateescape") as file:
            lines[path] = file.read().splitlines(True)
    write("note.json", dict(done, lines=lines))
    return dict(done, lines=lines)


def release(told: dict[str, Any]) -> dict[str, Any]:
    there = read("claim.json")
    if not there:
        return {"released": True, "kept": []}
    if there["key"] != told["key"]:
        return {"released": False, "claimed_by": there["key"], "kept": []}
    kept = []
    before = read("before.json")
    if before is not None:
        # What was not noted was cut off in the middle: then all that changed is taken for ours.
        done = read("note.json") or write_note(changes(before, observe()))
        write("claim.json", dict(there, state="releasing"))
        stop_services()
        came = end_roles(told.get("layouts", {}), before)
        kept += unmount(done["mounts"])
        kept += purge(done["packages"])
        kept += restore(before, dict(done, new=sorted({*done["new"], *came})))
        reset(before.get("settings", {}))
        if os.path.isdir("/run/systemd/system"):
            subprocess.run(["systemctl", "daemon-reload"])
    # By another name first: a half of a claim is none.
    gone = PLACE + ".gone"
    shutil.rmtree(gone, ignore_errors=True)
    os.rename(PLACE, gone)
    shutil.rmtree(gone)
    return {"released": True, "kept": kept}
