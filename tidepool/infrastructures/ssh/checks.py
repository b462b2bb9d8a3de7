"""Checks of existing hosts: a preview looks at the same as `tidepool doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.finding import Finding, Preflight
from tidepool.infrastructures.ssh.ask import FACTS_S, Ask, ask
from tidepool.infrastructures.ssh.demand import Demand, Demands, demands
from tidepool.infrastructures.ssh.errors import HostError
from tidepool.infrastructures.ssh.preflight import lacks
from tidepool.infrastructures.ssh.reading import read_options

if TYPE_CHECKING:
    from tidepool.resources.kind import Home

#: So many are asked at a time: over SSH, each takes a second.
_AT_ONCE: Final = 64


def lacks_of_hosts(demands: Demands, ask: Ask = ask) -> Iterator[tuple[Demand, Sequence[str]]]:
    """All that is wrong with each host, with the remedy; that it cannot be asked."""

    def wrong(demand: Demand) -> Sequence[str]:
        accounts = {"users": list(demands.users), "numbers": [uid for uid, _ in demands.users.values()]}
        try:
            facts = ask(demand.connection, "facts", accounts, FACTS_S)
        except HostError as error:
            return (str(error),)
        return lacks(facts, demand, stack=demands.stack, systems=demands.systems, users=demands.users)

    with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(demands.hosts)))) as threads:
        yield from zip(demands.hosts, threads.map(wrong, demands.hosts), strict=True)


def checks_of(spec: ClusterSpec, stack: str, _data: Path, ask: Ask = ask) -> Iterator[Finding]:
    """Each host that may be a node.

    Raises:
        SpecError: the options of existing hosts have mistakes.
    """
    for demand, found in lacks_of_hosts(demands(spec, read_options(spec), stack), ask):
        what = f"host {demand.host}"
        yield from (Finding(what, "lacks", f"{demand.path}: {lack}") for lack in found)
        if not found:
            yield Finding(what, "well", "it answers, and is fit to be a node")


def _lacks(demands: Demands, _home: Home) -> Iterator[str]:
    for demand, found in lacks_of_hosts(demands):
        yield from (f"{demand.path}: the host {demand.host}: {each}" for each in found)


PREFLIGHT = Preflight(Demands, _lacks)
