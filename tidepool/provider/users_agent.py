"""The agent that writes who the users of a cluster are. It runs on a machine that has /home, by the machine's own Python, and alone.

`tidepool.provider.users` hands its text to an interpreter, and a request in JSON to that one's stdin. The answer is JSON as well:
``{"files": {...}}`` or ``{"error": "..."}``. A request may be repeated after one that was cut off anywhere.
"""

from __future__ import annotations

import json
import os
import shutil
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Refused(Exception):
    """It cannot be done; the text is for a person."""


def read(folder: str) -> dict[str, str]:
    """Return the files of ``folder`` by their path in it."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, encoding="utf-8", errors="replace") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


def write(folder: str, files: Mapping[str, str]) -> None:
    """Have these files in ``folder`` and no others, each whole at all times; those of who goes leave first."""
    os.makedirs(os.path.join(folder, "keys"), mode=0o755, exist_ok=True)
    new = os.path.join(folder, ".new")
    if os.path.lexists(new):
        os.unlink(new)  # of one that was cut off
    there = read(folder)
    # Nobody is known whose key is not there yet, nor has a key who is known no more.
    ordered = sorted(files, key=lambda path: not path.startswith("keys/"))
    gone = sorted({*there} - {*files})
    for path in [path for path in ordered if files[path] != there.get(path)]:
        with open(new, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(files[path])
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, os.path.join(folder, path))
    for path in gone:
        os.unlink(os.path.join(folder, path))


def check_homes(homes: str, users: Mapping[str, tuple[int, int]]) -> None:
    """Refuse a user whose home is somebody else's, or whose number somebody had whose home is still there."""
    owners = {number: name for name, (number, _) in users.items()}
    for entry in os.scandir(homes):
        if not entry.is_dir(follow_symlinks=False) or entry.name.startswith("."):
            continue
        number, wanted = entry.stat(follow_symlinks=False).st_uid, users.get(entry.name)
        if wanted is not None and number != wanted[0]:
            raise Refused(
                f"{entry.path} belongs to the uid {number}, and {entry.name} has {wanted[0]}: move it away, or give it to them "
                f"with `chown --recursive {wanted[0]}:{wanted[1]} {entry.path}`"
            )
        if wanted is None and number in owners:
            raise Refused(
                f"{owners[number]} has the uid {number}, to which {entry.path} belongs: give them another, or chown that home first"
            )


def make_homes(homes: str, users: Mapping[str, tuple[int, int]]) -> None:
    """Make the homes that are missing, for their users alone."""
    for name, (uid, gid) in users.items():
        home = os.path.join(homes, name)
        if os.path.lexists(home):
            continue
        new = os.path.join(homes, f".{name}.new")
        shutil.rmtree(new, ignore_errors=True)  # of one that was cut off
        skeleton = "/etc/skel"
        shutil.copytree(skeleton, new, symlinks=True) if os.path.isdir(skeleton) else os.mkdir(new)
        for place, folders, files in os.walk(new):
            for each in (*folders, *files):
                os.lchown(os.path.join(place, each), uid, gid)
        os.chmod(new, 0o700)
        os.lchown(new, uid, gid)
        os.rename(new, home)


def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Do what is asked, and return what there is then."""
    folder, homes = request["folder"], request["homes"]
    if "files" in request:
        users = {name: (uid, gid) for name, uid, gid in request["users"]}
        check_homes(homes, users)
        make_homes(homes, users)
        write(folder, request["files"])
    return {"files": read(folder)}


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(answer(json.load(sys.stdin))))
    except (Refused, OSError) as error:
        sys.stdout.write(json.dumps({"error": str(error)}))
