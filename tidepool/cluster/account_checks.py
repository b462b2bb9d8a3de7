"""Checks of a spec's accounts, users and qualities of service against each other, as those of `spec_checks`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tidepool.cluster.offerings import named
from tidepool.cluster.spec_entries import Entry, Mistake, listed, nearest, numbered, part, words

#: Of Slurm itself.
_NORMAL: Final = "normal"


def accounts(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Names that stand twice, parents and qualities of service that are not there, cycles; and that slurmdbd is there."""
    entries, qualities = listed(spec, "accounts"), listed(spec, "qos")
    for kind, found in (("accounts", entries), ("qos", qualities)):
        if found and part(spec, "controller").get("accounting") is None:
            yield Mistake(
                kind, None, "slurmdbd keeps them; give the cluster one with `controller: {accounting: {}}`"
            )
    yield from _named_twice(entries)
    yield from _named_twice(qualities)
    yield from _parents(entries)
    known = [_NORMAL, *(each.name for each in qualities if each.name is not None)]
    for quality in qualities:
        yield from _unknown(quality, "preempts", known)
        if quality.name in dict(words(quality.keys.get("preempts"))).values():
            yield quality.mistake("preempts", "it is itself among them; leave it out")
    for account in entries:
        yield from _unknown(account, "qos", known)
        yield from _default_qos(account)
        yield from _budget(account, spec)
    yield from _users(entries)
    if entries:
        names = ["root", *(each.name for each in entries if each.name is not None)]
        for partition in listed(spec, "partitions"):
            yield from _of_partition(partition, names, known)


#: Options of a partition that name accounts, and those that name qualities of service, in small letters.
_ACCOUNTS: Final = ("allowaccounts", "denyaccounts")
_QUALITIES: Final = ("allowqos", "denyqos", "qos")


def _of_partition(partition: Entry, accounts: list[str], qualities: list[str]) -> Iterator[Mistake]:
    options = partition.keys.get("options")
    for key, value in options.items() if isinstance(options, Mapping) else ():
        kinds = ((_ACCOUNTS, accounts, "account"), (_QUALITIES, qualities, "quality of service"))
        for _, known, what in (each for each in kinds if str(key).lower() in each[0]):
            for name in str(value).split(","):
                if name not in known and name.upper() not in ("ALL", "NONE"):
                    yield partition.mistake(
                        "options", f"{key}: there is no {what} {name}; {nearest(name, known)}"
                    )


def _named_twice(entries: list[Entry]) -> Iterator[Mistake]:
    first: dict[str, str] = {}
    for entry in entries:
        if entry.name in first:
            yield entry.mistake("name", f"{first[entry.name]} has this name already; give each its own")
        elif entry.name is not None:
            first[entry.name] = entry.path


def _parents(entries: list[Entry]) -> Iterator[Mistake]:
    parents = {entry.name: entry.keys.get("parent") for entry in entries if entry.name is not None}
    told: set[str] = set()
    for entry in entries:
        parent = entry.keys.get("parent")
        if not isinstance(parent, str) or entry.name is None:
            continue
        if parent not in parents:
            yield entry.mistake("parent", f"there is no such account; {nearest(parent, list(parents))}")
        elif entry.name not in told and (cycle := _cycle(entry.name, parents)):
            told |= set(cycle)
            way = " -> ".join([*cycle, cycle[0]])
            yield entry.mistake(
                "parent", f"accounts are below each other in a circle: {way}; leave one `parent` out"
            )


def _cycle(name: str, parents: Mapping[str, Any]) -> list[str]:
    """Return the accounts from one up to itself; nothing where the way ends."""
    way = [name]
    while isinstance(above := parents.get(way[-1]), str) and above in parents:
        if above == name:
            return way
        if above in way:
            return []  # a circle of others, which is told of them
        way.append(above)
    return []


def _unknown(entry: Entry, key: str, known: list[str]) -> Iterator[Mistake]:
    for i, name in words(entry.keys.get(key)):
        if name not in known:
            yield Mistake(
                f"{entry.path}.{key}[{i}]",
                name,
                f"there is no such quality of service; {nearest(name, known)}",
            )


def _default_qos(account: Entry) -> Iterator[Mistake]:
    default, own = account.keys.get("default_qos"), [name for _, name in words(account.keys.get("qos"))]
    if isinstance(default, str) and default not in own:
        said = ", ".join(own) or "none"
        yield account.mistake("default_qos", f"it is not among the account's `qos` ({said}); add it there")


def _budget(account: Entry, spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """A budget of nothing, one that Slurm would not hold jobs to, and one of money where nothing costs any."""
    budget = account.keys.get("budget")
    if not isinstance(budget, Mapping):
        return
    usd, hours = (budget.get(key) for key in ("usd_per_month", "node_hours_per_month"))
    if usd is None and hours is None:
        yield account.mistake(
            "budget", "it limits nothing; say usd_per_month, node_hours_per_month, or leave it out"
        )
    enforced = _enforced(spec)
    if enforced is not None and not {"limits", "safe", "all"} & set(enforced):
        yield account.mistake(
            "budget", "Slurm holds jobs to no limits here; add `limits` to controller.accounting.enforce"
        )
    fleets = listed(spec, "fleets")
    entries = [each for fleet in fleets for _, each in numbered(fleet.keys.get("infrastructures"))]
    # Where a fleet's offering is wrong, it is not known whether it has one.
    priced = any(isinstance(each, Mapping) and each.get("price_usd_per_hour") for each in entries) or any(
        named(fleet.keys) for fleet in fleets
    )
    if usd is not None and not priced:
        yield Mistake(
            f"{account.path}.budget.usd_per_month",
            usd,
            "no machine of a fleet has a price; give their infrastructures a price_usd_per_hour, or the account "
            "node_hours_per_month",
        )


def _enforced(spec: Mapping[str, Any]) -> list[str] | None:
    """Return what a person has Slurm enforce; None where that is Tidepool's own choice."""
    options = part(spec, "slurm_conf")
    own = next((options[key] for key in options if str(key).lower() == "accountingstorageenforce"), None)
    if own is not None:
        return str(own).lower().split(",")
    return [word for _, word in words(part(part(spec, "controller"), "accounting").get("enforce"))] or None


def _users(entries: list[Entry]) -> Iterator[Mistake]:
    defaults: dict[str, str] = {}
    for account in entries:
        seen: set[str] = set()
        for i, user in numbered(account.keys.get("users")):
            keys = {"name": user} if isinstance(user, str) else user
            entry = Entry(f"{account.path}.users[{i}]", keys if isinstance(keys, Mapping) else {})
            if entry.name is None:
                continue
            if entry.name in seen:
                yield entry.mistake("name", "this user is in the account already; leave one out")
            seen.add(entry.name)
            if entry.keys.get("default") is True:
                if entry.name in defaults:
                    yield entry.mistake(
                        "default", f"{defaults[entry.name]} is their default already; leave one out"
                    )
                defaults.setdefault(entry.name, account.path)
