"""An inventory as Ansible has it, in YAML or INI: hosts in their order, how each is reached, and groups of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

_RANGE: Final = re.compile(r"\[([0-9]+):([0-9]+)\]")
#: Variables of Ansible that are understood; others are for playbooks of a person's own.
_KNOWN: Final = {
    "ansible_host": "address",
    "ansible_port": "port",
    "ansible_user": "user",
    "ansible_ssh_private_key_file": "key",
}


class InventoryError(Exception):
    """It is no inventory. The text says where and why."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """``hosts`` are what is known of each by its name (address, port, user, key), ``groups`` the hosts of each by its name."""

    hosts: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, tuple[str, ...]]


@dataclass
class _Group:
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)


def read_inventory(text: str) -> Inventory:
    """The hosts and groups of an inventory's text.

    Raises:
        InventoryError: it is none.
    """
    first = next(
        (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), ""
    )
    groups = _ini(text) if first.startswith("[") or not re.match(r"\s*[\w-]+:(\s|$)", first) else _yaml(text)
    if not any(group.hosts for group in groups.values()):
        raise InventoryError("there is no host in it")
    members = {name: tuple(dict.fromkeys(_members(groups, name, ()))) for name in groups}
    members["all"] = tuple(dict.fromkeys(host for group in groups.values() for host in group.hosts))
    groups.setdefault("all", _Group())
    hosts: dict[str, dict[str, Any]] = {}
    # Of groups, what is said of one within another goes before; of a host, what is said of itself.
    for name in sorted(groups, key=lambda each: len(members[each]), reverse=True):
        for host in members[name]:
            hosts.setdefault(host, {}).update(groups[name].variables)
    for group in groups.values():
        for host, variables in group.hosts.items():
            hosts[host].update(variables)
    order = [host for group in groups.values() for host in group.hosts]
    known = {
        host: {_KNOWN[key]: value for key, value in hosts[host].items() if key in _KNOWN}
        for host in dict.fromkeys(order)
    }
    return Inventory(
        known, {name: hosts for name, hosts in members.items() if name not in ("all", "ungrouped")}
    )


def _members(groups: Mapping[str, _Group], name: str, above: tuple[str, ...]) -> Iterator[str]:
    if name in above:
        raise InventoryError(f"the group {name} is within itself")
    if name not in groups:
        raise InventoryError(f"the group {name} is named as a child, and is not there")
    yield from groups[name].hosts
    for child in groups[name].children:
        yield from _members(groups, child, (*above, name))


def _yaml(text: str) -> dict[str, _Group]:
    try:
        told = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InventoryError(f"it is no YAML: {error}") from error
    groups: dict[str, _Group] = {}
    for name, body in _mapping(told, "it").items():
        _yaml_group(name, body, groups)
    return groups


def _yaml_group(name: str, body: Any, groups: dict[str, _Group]) -> None:
    group = groups.setdefault(name, _Group())
    told = _mapping(body, f"the group {name}")
    if strange := sorted(set(told) - {"hosts", "children", "vars"}):
        raise InventoryError(f"the group {name} has {', '.join(strange)}; known are hosts, children, vars")
    for pattern, variables in _mapping(told.get("hosts"), f"hosts of the group {name}").items():
        for host in _expanded(str(pattern)):
            group.hosts.setdefault(host, {}).update(_mapping(variables, f"the host {host}"))
    group.variables.update(_mapping(told.get("vars"), f"vars of the group {name}"))
    for child, below in _mapping(told.get("children"), f"children of the group {name}").items():
        group.children.append(child)
        _yaml_group(child, below, groups)


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InventoryError(f"{what} is {value!r}; a map is wanted")
    return value


def _ini(text: str) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    name, part = "ungrouped", ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"^\s*;.*|(^|\s)#.*", "", raw).strip()
        if not line:
            continue
        if match := re.fullmatch(r"\[([\w.-]+)(?::(children|vars))?\]", line):
            name, part = match[1], match[2] or ""
        elif line.startswith("["):
            raise InventoryError(
                f"line {number}: {line} is no heading; write [GROUP], [GROUP:children] or [GROUP:vars]"
            )
        group = groups.setdefault(name, _Group())
        if line.startswith("["):
            continue
        if part == "children":
            group.children.append(line)
        elif part == "vars":
            key, equals, value = line.partition("=")
            if not equals:
                raise InventoryError(f"line {number}: {line} is no variable; write NAME=VALUE")
            group.variables[key.strip()] = value.strip()
        else:
            pattern, *words = line.split()
            if strange := [word for word in words if "=" not in word]:
                raise InventoryError(f"line {number}: {strange[0]} is no variable; write NAME=VALUE")
            for host in _expanded(pattern):
                pairs = (word.partition("=") for word in words)
                group.hosts.setdefault(host, {}).update({key: value for key, _, value in pairs})
    return groups


def _expanded(pattern: str) -> Iterator[str]:
    """``node[01:03]`` is three hosts."""
    match = _RANGE.search(pattern)
    if match is None:
        yield pattern
        return
    for number in range(int(match[1]), int(match[2]) + 1):
        yield from _expanded(
            pattern[: match.start()] + str(number).zfill(len(match[1])) + pattern[match.end() :]
        )
