"""Facts of a host, and whose it is, for a preflight. Changes nothing."""

from __future__ import annotations

import os
import platform
import pwd
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from tidepool.infrastructures.ssh.keeper.paths import DAEMONS, ROOT
from tidepool.infrastructures.ssh.keeper.store import read

if TYPE_CHECKING:
    from typing import Any


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
    }


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
