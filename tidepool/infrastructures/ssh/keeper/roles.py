"""Ending of what a role of a pool has begun on a host that still has it when it is given back, as by a sweep: as conversions do."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from tidepool.infrastructures.ssh.keeper.listing import ROOT, WHOLE, devices, is_below, mounts, names_in

if TYPE_CHECKING:
    from typing import Any

GROUPS = "/sys/fs/cgroup/"
#: One that waits for a disk that does not answer outlives it.
KILLED_WITHIN_S = 5.0


def end_roles(layouts: dict[str, dict[str, Any]], before: dict[str, Any]) -> list[str]:
    """End all of those that the host's units know, and take away what is of their ``layouts`` (`tidepool.cluster.roles`).

    Gives what came with them since the look ``before``, noted or not: a conversion makes it after the play.
    """
    # Of a claim of an earlier release nobody knows whether those of `WHOLE` were there.
    whole = [path for path in WHOLE if path in before.get("links", ())]
    came: list[str] = []
    for role, layout in layouts.items():
        if os.path.exists("%s/etc/systemd/system/tidepool-%s.target" % (ROOT, role)):
            end_processes(role, layout["groups"])
            take_away_traces(layout)
            came += layout["emptied"]
            came += whole + [path + "/" + name for path in whole for name in names_in(path)]
    return [path for path in came if path not in before["files"]]


def end_processes(role: str, more: list[str]) -> None:
    """Kill what services left behind, and take its control groups away."""
    groups = ["tidepool.slice/tidepool-%s.slice" % role] + more
    deadline = time.monotonic() + KILLED_WITHIN_S
    while (left := members(groups)) and time.monotonic() < deadline:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # by itself
        time.sleep(0.05)
    if os.path.isdir("/run/systemd/system"):
        subprocess.run(["systemctl", "stop", "tidepool-%s.slice" % role], stderr=subprocess.DEVNULL)
    for group in more:
        for folder, _, _ in os.walk(ROOT + GROUPS + group, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                continue  # something lives in it


def members(groups: list[str]) -> list[int]:
    found = []
    for pid in filter(str.isdigit, names_in("/proc")):
        try:
            with open(ROOT + "/proc/%s/cgroup" % pid) as lines:
                paths = [line.rstrip("\n").split(":", 2)[2] for line in lines]
        except OSError:
            continue  # it ended
        if any(is_below(path, ["/" + group for group in groups]) for path in paths):
            found.append(int(pid))
    return found


def take_away_traces(layout: dict[str, Any]) -> None:
    for mount in reversed([each for each in mounts() if is_below(each, layout["state"] + layout["emptied"])]):
        subprocess.run(["umount", "--lazy", ROOT + mount], stderr=subprocess.DEVNULL)
    inside = [folder + "/" + name for folder in layout["emptied"] for name in names_in(folder)]
    for path in layout["state"] + inside:
        if os.path.isdir(ROOT + path) and not os.path.islink(ROOT + path):
            shutil.rmtree(ROOT + path, ignore_errors=True)
        elif os.path.lexists(ROOT + path):
            os.unlink(ROOT + path)
    there = devices()
    for name in there:
        if name.startswith(tuple(layout["links"])):
            subprocess.run(["ip", "link", "delete", name], stderr=subprocess.DEVNULL)
    if there and layout["routes"]:
        flush = ["ip", "route", "flush", "proto", str(layout["routes"])]
        subprocess.run(flush, stderr=subprocess.DEVNULL)
