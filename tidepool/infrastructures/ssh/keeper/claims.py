"""Whose a host is: claimed, noted what playbooks changed, given back."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

from tidepool.infrastructures.ssh.keeper.changes import changes
from tidepool.infrastructures.ssh.keeper.looking import observe
from tidepool.infrastructures.ssh.keeper.paths import BY_LINES, PLACE, ROOT, SAVED
from tidepool.infrastructures.ssh.keeper.store import preserve, read, write
from tidepool.infrastructures.ssh.keeper.undoing import purge, restore, stop_services, unmount

if TYPE_CHECKING:
    from typing import Any


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
        kept += unmount(done["mounts"])
        kept += purge(done["packages"])
        kept += restore(before, done)
        if os.path.isdir("/run/systemd/system"):
            subprocess.run(["systemctl", "daemon-reload"])
    # By another name first: a half of a claim is none.
    gone = PLACE + ".gone"
    shutil.rmtree(gone, ignore_errors=True)
    os.rename(PLACE, gone)
    shutil.rmtree(gone)
    return {"released": True, "kept": kept}
