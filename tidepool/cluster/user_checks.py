"""Checks of a spec's users and groups against each other and against its accounts, as those of `spec_checks`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidepool.cluster.spec_entries import Entry, Mistake, listed, nearest, numbered, words
from tidepool.cluster.users import RESEARCHER


def users(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Names and numbers that stand twice, groups that are not there; and, where no directory has others, who is in no account."""
    people, groups = listed(spec, "users"), listed(spec, "groups")
    yield from _twice(people, "name")
    yield from _twice(people, "uid")
    yield from _twice(groups, "name")
    yield from _twice(groups, "gid")
    # Each user has a group of the same name and number, where no other is their first.
    taken = {**_first(groups, "name"), **_first(groups, "gid")}
    for user in (each for each in people if each.keys.get("gid") is None):
        for key in ("name", "uid"):
            if path := taken.get(user.keys.get(key)):
                yield user.mistake(
                    key, f"{path} has it, and a user's own group has their name and number; take another"
                )
    known = {group.name: group.keys.get("gid") for group in groups if group.name is not None}
    if spec.get("directory") is not None:
        return
    for user in people:
        for i, name in words(user.keys.get("groups")):
            if name not in known:
                path = f"{user.path}.groups[{i}]"
                yield Mistake(
                    path, name, f"there is no such group; {nearest(name, list(known))}, or add it to `groups`"
                )
        gid = user.keys.get("gid")
        if isinstance(gid, int) and gid not in known.values():
            yield user.mistake(
                "gid", "no group of the spec has this number; add one to `groups`, or leave it out"
            )
    yield from _accounts(spec, people)


def _twice(entries: list[Entry], key: str) -> Iterator[Mistake]:
    first = _first(entries, key)
    for entry in entries:
        path = first.get(entry.keys.get(key), entry.path)
        if path != entry.path:
            yield entry.mistake(key, f"{path} has this {key} already; give each its own")


def _first(entries: list[Entry], key: str) -> dict[Any, str]:
    """By what stands at a key, the first entry that says it."""
    found: dict[Any, str] = {}
    for entry in entries:
        value = entry.keys.get(key)
        if isinstance(value, str | int):
            found.setdefault(value, entry.path)
    return found


def _accounts(spec: Mapping[str, Any], people: list[Entry]) -> Iterator[Mistake]:
    """Users of accounts who are not there, and users whose jobs no account would take."""
    accounts = listed(spec, "accounts")
    if not accounts:
        return
    known = [each.name for each in people if each.name is not None] or [RESEARCHER.name]
    named = set()
    for account in accounts:
        for i, user in numbered(account.keys.get("users")):
            name = user.get("name") if isinstance(user, Mapping) else user
            if not isinstance(name, str):
                continue
            named.add(name)
            if name not in known:
                yield Mistake(
                    f"{account.path}.users[{i}]",
                    name,
                    f"there is no such user; {nearest(name, known)}, or add them to `users`",
                )
    for person in people:
        if person.name is not None and person.name not in named:
            yield person.mistake(
                "name",
                "no account names them, so their jobs would be refused; add them to `users` of an account",
            )
