"""Users of a cluster: those that its spec names, and those of the directory that it names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi

from tidepool.cluster import user_checks
from tidepool.cluster.part_reading import read_part
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.cluster.spec_reading import SpecError
from tidepool.cluster.users import Directory, Group, User, UserList

_OF_LIST = re.compile(r"(users|groups)\[(\d+)\]")


def list_users(spec: ClusterSpec, known: UserList | None = None, password: str | None = None) -> UserList:
    """Return who may log in; ``known`` are those that the cluster has, ``password`` is that of the directory.

    Raises:
        pulumi.RunError: the directory does not answer, or has answered in part, or those that it has and those of the spec do not
            go together; says all that is wrong.
    """
    if spec.directory is None:
        return UserList(spec.users, spec.groups) if spec.users else UserList(groups=spec.groups)
    found = _read(spec.directory, password)
    least = spec.directory.at_least
    if least is None:
        # One that has nobody has not been asked rightly.
        least = max(1, (len(known.users) - len(spec.users) + 1) // 2 if known is not None else 0)
    if not spec.directory.system and len(found.users) < least:
        raise pulumi.RunError(
            f"{_source(spec.directory)} has {len(found.users)} users, where at least {least} were expected, so it is taken for an "
            "answer in part, and nobody goes; where it is whole, say so by directory.at_least"
        )
    together = UserList((*spec.users, *found.users), (*spec.groups, *found.groups))
    if mistakes := _disagreements(spec, together):
        raise pulumi.RunError(str(SpecError(tuple(mistakes))))
    return together


def user_list(given: Mapping[str, Any], source: str = "") -> UserList:
    """Return the users and groups of a mapping, as `UserList.to_json` gives it; ``source`` is where it stands.

    Raises:
        SpecError: with every mistake in it.
    """
    mistakes: list[Mistake] = []
    users = [
        read_part(User, f"{source}users[{i}]", each, mistakes)
        for i, each in enumerate(given.get("users", ()))
    ]
    groups = [
        read_part(Group, f"{source}groups[{i}]", each, mistakes)
        for i, each in enumerate(given.get("groups", ()))
    ]
    if mistakes:
        raise SpecError(tuple(mistakes))
    return UserList(tuple(filter(None, users)), tuple(filter(None, groups)))


def _read(directory: Directory, password: str | None) -> UserList:
    if directory.file is not None:
        return _of_file(Path(directory.file).expanduser())
    if directory.ldap is None:
        return UserList(())  # machines know them
    from tidepool.clients.ldap import LdapError, search

    try:
        given, left_out = search(directory.ldap, password)
        for each in left_out:
            pulumi.log.warn(each)
        return user_list(given, f"{directory.ldap.uri}: ")
    except (LdapError, SpecError) as error:
        raise pulumi.RunError(f"directory.ldap: {error}") from None


def _of_file(path: Path) -> UserList:
    remedy = "write what another stack has: `pulumi stack output spec --json`, or `users` where that has a directory"
    try:
        given = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise pulumi.RunError(f"directory.file = {path}: it cannot be read ({error}); {remedy}") from None
    if not isinstance(given, Mapping):
        raise pulumi.RunError(f"directory.file = {path}: there are no `users` and `groups` in it; {remedy}")
    try:
        return user_list(given, f"{path}: ")
    except SpecError as error:
        raise pulumi.RunError(f"directory.file: {error}") from None


def _source(directory: Directory) -> str:
    return directory.file or (directory.ldap.uri if directory.ldap is not None else "the system")


def _disagreements(spec: ClusterSpec, together: UserList) -> list[Mistake]:
    """List what of the spec and of its directory does not go together; users of the latter by name."""
    written = spec.model_dump(include={"accounts"}) | together.to_json()
    if spec.directory is not None and spec.directory.system:
        written["directory"] = {}  # others are known to machines alone
    own = {"users": len(spec.users), "groups": len(spec.groups)}
    names = {
        "users": [each.name for each in together.users],
        "groups": [each.name for each in together.groups],
    }

    def named(found: re.Match[str]) -> str:
        kind, i = found[1], int(found[2])
        return found[0] if i < own[kind] else f"{kind} {names[kind][i]} of the directory"

    return [
        Mistake(_OF_LIST.sub(named, each.path), each.value, _OF_LIST.sub(named, each.message))
        for each in user_checks.users(written)
    ]
