"""The files by which machines know the users of a cluster: passwd and group of glibc, and keys of sshd.

A user is a mapping, with ``uid`` and, where they are not empty or the default, ``gid``, ``groups``, ``keys``, ``comment`` and ``shell``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

HOMES: Final = "/home"
#: Where all machines find them, on the volume of /home: passwd, group, and keys/NAME of each user (role `users`).
FOLDER: Final = f"{HOMES}/.tidepool"
KEYS: Final = f"{FOLDER}/keys"
#: The environment variable of users who may lose their jobs when they leave: names with commas between.
CANCEL_JOBS_OF: Final = "TIDEPOOL_CANCEL_JOBS_OF"

DEFAULT_SHELL: Final = "/bin/bash"
#: What looks up users of /home passes those below over (libnss-extrausers), as they are a system's own.
LEAST_NUMBER: Final = 1000
NAME: Final = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
_PASSWD_FIELDS: Final = 7
_GROUP_FIELDS: Final = 4
#: What would be another field or line.
_BROKEN: Final = re.compile(r"[\x00-\x1f:]")

Users = Mapping[str, Mapping[str, Any]]


def user_files(users: Users, groups: Mapping[str, int]) -> dict[str, str]:
    """Return the files of `FOLDER` by their path in it; ``groups`` are numbers by name."""
    keys = {name: "".join(f"{key}\n" for key in each.get("keys", ())) for name, each in users.items()}
    return {
        "passwd": _passwd(users),
        "group": _group(users, groups),
        **{f"keys/{name}": text for name, text in keys.items() if text},
    }


def homes(users: Users) -> list[tuple[str, int, int]]:
    """Return the name, uid and gid of each."""
    # Numbers of a stack's state may be 2000.0.
    return [(name, int(each["uid"]), int(each.get("gid", each["uid"]))) for name, each in users.items()]


def _passwd(users: Users) -> str:
    """Lines of passwd(5). Nobody has a password: people log in by key."""
    lines = [
        (
            uid,
            f"{name}:*:{uid}:{gid}:{users[name].get('comment', '')}:{HOMES}/{name}:{users[name].get('shell', DEFAULT_SHELL)}\n",
        )
        for name, uid, gid in homes(users)
    ]
    return "".join(line for _, line in sorted(lines))


def _group(users: Users, groups: Mapping[str, int]) -> str:
    """Lines of group(5): each user's own group, and those that are named, with who is in them."""
    members: dict[str, list[str]] = {name: [] for name in groups}
    for name in sorted(users):
        for group in users[name].get("groups", ()):
            members[group].append(name)
    own = [(uid, name, "") for name, uid, _ in homes(users) if "gid" not in users[name]]
    named = [(int(gid), name, ",".join(members[name])) for name, gid in groups.items()]
    return "".join(f"{name}:*:{gid}:{of}\n" for gid, name, of in sorted([*own, *named]))


def read_user_files(files: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the users and groups that `user_files` wrote; lines that are none are passed over."""
    groups = {
        line[0]: (int(line[2]), line[3].split(",")) for line in _lines(files.get("group", ""), _GROUP_FIELDS)
    }
    users: dict[str, Any] = {}
    of: dict[str, list[str]] = {}
    for group, (_, members) in sorted(groups.items()):
        for name in members:
            of.setdefault(name, []).append(group)
    for name, _, uid, gid, comment, _, shell in _lines(files.get("passwd", ""), _PASSWD_FIELDS):
        found = {
            "uid": int(uid),
            "gid": int(gid) if gid != uid else None,
            "groups": of.get(name, []),
            "keys": files.get(f"keys/{name}", "").splitlines(),
            "comment": comment,
            "shell": shell if shell != DEFAULT_SHELL else None,
        }
        users[name] = {key: value for key, value in found.items() if value or key == "uid"}
    return users, {name: gid for name, (gid, _) in groups.items() if name not in users}


def _lines(text: str, fields: int) -> Iterator[list[str]]:
    """Yield the fields of lines that have so many, with numbers in their places."""
    for line in text.splitlines():
        found = line.split(":")
        numbers = found[2:4] if fields == _PASSWD_FIELDS else found[2:3]
        if len(found) == fields and all(each.isdecimal() for each in numbers):
            yield found


def leaving_uids(leaving: Users, staying: Users) -> list[int]:
    """Return whose processes end: of who leaves, but for numbers of a system's, or of somebody who stays, that a hand wrote."""
    kept = {uid for _, uid, _ in homes(staying)}
    return sorted({uid for _, uid, _ in homes(leaving) if uid >= LEAST_NUMBER} - kept)


def malformed(users: Users, groups: Mapping[str, int]) -> Iterator[str]:
    """Yield in words what of them these files cannot hold; `tidepool.cluster.users` says more of a person's spec."""
    for name in (*users, *groups):
        if not NAME.fullmatch(name):
            yield f"{name!r} is no name of a user or a group"
    for name, each in users.items():
        numbers = [each.get("uid"), each.get("gid", each.get("uid"))]
        if not all(isinstance(number, int | float) and number >= LEAST_NUMBER for number in numbers):
            yield f"{name} needs a uid, and where it has a gid one, that is at least {LEAST_NUMBER}"
        if any(_BROKEN.search(each.get(key, "")) for key in ("comment", "shell")):
            yield f"{name} has a comment or a shell with a colon or a control character"
        if any(not key.isprintable() for key in each.get("keys", ())):
            yield f"{name} has a key that is more than one line"
        if lost := sorted({*each.get("groups", ())} - {*groups}):
            yield f"{name} is in groups that are not there: {', '.join(lost)}"
