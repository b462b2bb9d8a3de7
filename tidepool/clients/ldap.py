"""Users and groups of an LDAP directory, as RFC 2307 has them, asked by OpenLDAP's own ldapsearch."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.user_files import LEAST_NUMBER
from tidepool.cluster.users import Ldap, ssh_key

_USER: Final = ("uid", "uidNumber", "gidNumber", "gecos", "loginShell", "sshPublicKey")
_GROUP: Final = ("cn", "gidNumber", "memberUid")
#: By ldapsearch's exit code: codes of LDAP (RFC 4511, appendix A), and of its library, which are negative.
_REASONS: Final = {
    3: "it took too long",
    4: "it gave a part of its entries (its size limit); raise the limit for `bind_dn`, or narrow `filter`",
    8: "it wants to know who asks; write `bind_dn`",
    13: "it wants an encrypted connection; write ldaps:// as `uri`",
    32: "there is no such entry as `base` or `groups_base`",
    34: "`base`, `groups_base` or `bind_dn` is no name of an entry",
    49: "it does not know `bind_dn`, or not with this password: `pulumi config set --secret cluster:ldapPassword`",
    50: "`bind_dn` may not read there",
    249: "`filter` cannot be read",
    251: "it did not answer in time",
    255: "it does not answer, or its certificate is not trusted; see `uri` and `ca_file`",
}

Entry = Mapping[str, Sequence[str]]


class LdapError(Exception):
    """The directory was not asked, or did not answer as a whole. The text is for a person."""


def search(ldap: Ldap, password: str | None) -> tuple[dict[str, Any], list[str]]:
    """Return `users` and `groups` as a spec has them, and in words what was left out of them.

    Raises:
        LdapError: it did not give all.
    """
    if ldap.bind_dn is not None and password is None:
        raise LdapError("`bind_dn` has a password: `pulumi config set --secret cluster:ldapPassword`")
    groups = [
        {"name": _one(entry, "cn"), "gid": _number(entry, "gidNumber"), "members": entry.get("memberUid", ())}
        for entry in _search(
            ldap, password, ldap.groups_base or ldap.base, "(objectClass=posixGroup)", _GROUP
        )
    ]
    # Those of a system's own are no cluster's: whose first group is one of them has a group of their own.
    named = [group for group in groups if isinstance(gid := group["gid"], int) and gid >= LEAST_NUMBER]
    left_out = [
        f"{ldap.uri}: the group {group['name']!r} is left out: its gidNumber is no number"
        for group in groups
        if not isinstance(group["gid"], int)
    ]
    users = [
        _user(entry, named, ldap.uri, left_out)
        for entry in _search(ldap, password, ldap.base, ldap.filter, _USER)
    ]
    # A group of somebody's own is theirs without being named.
    own = {(user["name"], user["uid"]) for user in users}
    kept = [
        {"name": group["name"], "gid": group["gid"]}
        for group in named
        if (group["name"], group["gid"]) not in own
    ]
    return {"users": users, "groups": kept}, left_out


def _user(
    entry: Entry, groups: Sequence[Mapping[str, Any]], where: str, left_out: list[str]
) -> dict[str, Any]:
    name, uid, gid = _one(entry, "uid"), _number(entry, "uidNumber"), _number(entry, "gidNumber")
    user: dict[str, Any] = {"name": name, "uid": uid, "keys": []}
    if isinstance(gid, int) and gid >= LEAST_NUMBER and gid != uid:
        user["gid"] = gid
    user["groups"] = sorted(
        group["name"] for group in groups if name in group["members"] and group["name"] != name
    )
    for key in entry.get("sshPublicKey", ()):
        try:
            user["keys"].append(ssh_key(key))
        except ValueError as error:
            left_out.append(f"{where}: a key of {name} is left out: {error}")
    user |= {"shell": shell} if (shell := _one(entry, "loginShell")) else {}
    # What passwd(5) does not bear is not for people.
    user["comment"] = "".join(
        each for each in _one(entry, "gecos") if each not in ":," and each.isprintable()
    )[:200]
    return user


def _one(entry: Entry, key: str) -> str:
    return next(iter(entry.get(key, ())), "")


def _number(entry: Entry, key: str) -> int | str:
    """The number, or the text that is none: who reads it tells of that."""
    text = _one(entry, key)
    return int(text) if text.isdecimal() else text


def _search(
    ldap: Ldap, password: str | None, base: str, wanted: str, attributes: Sequence[str]
) -> list[Entry]:
    program = shutil.which("ldapsearch")
    if program is None:
        raise LdapError("ldapsearch is not on PATH; install it: `apt-get install ldap-utils`")
    limit = str(ldap.timeout_s)
    descriptor = os.memfd_create("ldap", 0)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, (password or "").encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        # The password comes by a file of memory alone, so that no list of processes shows it.
        who = ("-D", ldap.bind_dn, "-y", f"/dev/fd/{descriptor}") if ldap.bind_dn is not None else ()
        argv = [
            *(program, "-LLL", "-x", "-o", "ldif-wrap=no", "-o", f"nettimeout={limit}", "-l", limit),
            *("-E", "pr=500/noprompt", "-H", ldap.uri, *(["-ZZ"] if ldap.uri.startswith("ldap:") else [])),
            *(*who, "-b", base, "-s", "sub", wanted, *attributes),
        ]
        trusted = {} if ldap.ca_file is None else {"LDAPTLS_CACERT": str(Path(ldap.ca_file).expanduser())}
        env = {"PATH": os.environ.get("PATH", ""), "LDAPTLS_REQCERT": "demand", **trusted}
        done = subprocess.run(
            argv,
            env=env,
            capture_output=True,
            pass_fds=(descriptor,),
            timeout=3 * ldap.timeout_s + 10,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LdapError(f"{ldap.uri} did not answer in time; nobody goes") from None
    finally:
        os.close(descriptor)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = _REASONS.get(done.returncode, said[0] if said else f"exit code {done.returncode}")
        raise LdapError(f"{ldap.uri}, {base}: {reason}. Nobody comes or goes until it answers as a whole")
    return list(_entries(done.stdout.decode()))


def _entries(ldif: str) -> Iterator[Entry]:
    """Yield what LDIF (RFC 2849) has, without names of entries."""
    for block in ldif.split("\n\n"):
        entry: dict[str, list[str]] = {}
        for line in block.splitlines():
            key, _, value = line.partition(":")
            if value.startswith(":"):
                value = base64.b64decode(value[1:]).decode(errors="replace")
            entry.setdefault(key, []).append(value.strip())
        if entry.pop("dn", None):
            yield entry
