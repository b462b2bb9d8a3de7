"""Lacks of a host that is to be a node; among them, that it is somebody else's. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tidepool.infrastructures.ssh.demand import Demand

#: What packages are made for.
_ARCHITECTURE: Final = "x86_64"
_OLDEST_PYTHON: Final = (3, 8)
_TOOLS: Final = {"unshare": "util-linux", "setpriv": "util-linux", "ip": "iproute2", "mount": "mount"}


def lacks(
    facts: Mapping[str, Any],
    demand: Demand,
    *,
    stack: str,
    systems: Sequence[str],
    users: Mapping[str, tuple[int, ...]],
) -> tuple[str, ...]:
    """All that is wrong with a host, each with the remedy; nothing where it is fit. ``facts`` are the keeper's.

    ``users`` are the numbers, of the user and of its group, that accounts are to have.
    """
    return tuple(_lacks(facts, demand, stack, systems, users))


def _lacks(
    facts: Mapping[str, Any],
    demand: Demand,
    stack: str,
    systems: Sequence[str],
    users: Mapping[str, tuple[int, ...]],
) -> Iterator[str]:
    claim = facts["claim"]
    if claim and claim["key"]["stack"] != stack:
        key = claim["key"]
        yield (
            f"it is the node {key['node']} of the stack {key['stack']}: give it back there first, or take another host"
        )
        return
    if not claim and (daemons := facts["daemons"]):
        yield (
            f"{', '.join(daemons)} runs there, so it is a node of another cluster, which no stack of ours made: take it out "
            "of that cluster and stop what runs, or take another host"
        )
    system = f"{facts['os'].get('ID', '?')} {facts['os'].get('VERSION_ID', '?')}"
    if system not in systems:
        yield (
            f"it runs {system}, and hosts run {' or '.join(systems)}: take another host; or name it in `systems`, where its "
            "packages have the same release of Slurm"
        )
    if "apt-get" not in facts["tools"]:
        yield "it has no apt-get, by which the roles install packages: take a host of Debian"
    if facts["architecture"] != _ARCHITECTURE:
        yield f"it is {facts['architecture']}, and the cluster is {_ARCHITECTURE}: take another host"
    if tuple(facts["python"]) < _OLDEST_PYTHON:
        yield f"its Python is {facts['python'][0]}.{facts['python'][1]}; Ansible wants 3.8 or newer: apt-get install python3"
    for tool, package in _TOOLS.items():
        if tool not in facts["tools"]:
            yield f"it has no {tool}; run there: apt-get install {package}"
    if facts["cpus"] < demand.cpus:
        yield f"it has {facts['cpus']} cpus, and the shape {demand.cpus}: lower cpus of the shape, or take another host"
    if facts["memory_mib"] < demand.memory_mib:
        yield (
            f"it has {facts['memory_mib']} MiB of memory, and the shape {demand.memory_mib} MiB: lower memory of the shape, or "
            "take another host"
        )
    for name, (uid, gid) in users.items():
        there = facts["users"].get(name)
        if there and tuple(there) != (uid, gid):
            yield (
                f"its user {name} has the numbers {there[0]} and {there[1]}, and the cluster's {uid} and {gid}: give it those "
                "there, or write them in `users`"
            )
        taken = facts["numbers"].get(str(uid))
        if taken not in (None, name):
            yield f"its user {taken} has the number {uid}, which {name} is to have: write another one in `users`"
