"""Checks of existing hosts: a preview looks at the same as `tidepool doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.finding import Finding
from tidepool.infrastructures.ssh.ask import FACTS_S, Ask, ask
from tidepool.infrastructures.ssh.demand import Demand, demands
from tidepool.infrastructures.ssh.errors import HostError
from tidepool.infrastructures.ssh.preflight import lacks
from tidepool.infrastructures.ssh.reading import connection_of, read_options

#: So many are asked at a time: over SSH, each takes a second.
_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class Wanted:
    """Demands on hosts. ``users`` are the numbers of accounts, of the user and of its group."""

    stack: str
    systems: tuple[str, ...]
    users: Mapping[str, tuple[int, int]]
    hosts: tuple[tuple[Demand, Mapping[str, Any]], ...]


def lacks_of_hosts(wanted: Wanted, ask: Ask = ask) -> Iterator[tuple[Demand, Sequence[str]]]:
    """All that is wrong with each host, with the remedy; that it cannot be asked."""

    def wrong(asked: tuple[Demand, Mapping[str, Any]]) -> Sequence[str]:
        demand, connection = asked
        told = {"users": list(wanted.users), "numbers": [uid for uid, _ in wanted.users.values()]}
        try:
            facts = ask(connection, "facts", told, FACTS_S)
        except HostError as error:
            return (str(error),)
        return lacks(facts, demand, stack=wanted.stack, systems=wanted.systems, users=wanted.users)

    with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(wanted.hosts)))) as threads:
        for (demand, _), found in zip(wanted.hosts, threads.map(wrong, wanted.hosts), strict=True):
            yield demand, found


def checks_of(spec: ClusterSpec, stack: str, _data: Path, ask: Ask = ask) -> Iterator[Finding]:
    """Each host that may be a node.

    Raises:
        SpecError: the options of existing hosts have mistakes.
    """
    options = read_options(spec)
    place = options.place
    users = {name: (each.uid, each.gid or each.uid) for name, each in place.users.items()}
    hosts = tuple(
        (demand, connection_of(place, options.hosts[demand.host])) for demand in demands(spec, options)
    )
    for demand, found in lacks_of_hosts(Wanted(stack, tuple(place.systems), users, hosts), ask):
        what = f"host {demand.host}"
        yield from (Finding(what, "lacks", f"{demand.path}: {lack}") for lack in found)
        if not found:
            yield Finding(what, "well", "it answers, and is fit to be a node")
