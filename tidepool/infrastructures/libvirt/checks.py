"""Checks of libvirt's hosts: a preview looks at the same as `tidepool doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.finding import Finding, Preflight
from tidepool.infrastructures.libvirt.ask import ask, tools_missing
from tidepool.infrastructures.libvirt.capabilities import Host
from tidepool.infrastructures.libvirt.demand import Demand, Demands, demands
from tidepool.infrastructures.libvirt.errors import LibvirtError
from tidepool.infrastructures.libvirt.preflight import lacks
from tidepool.infrastructures.libvirt.reading import read_options

if TYPE_CHECKING:
    from tidepool.resources.kind import Home

Ask = Callable[[str], Host]


def lacks_of_host(uri: str, demands: Sequence[Demand], ask: Ask = ask) -> tuple[str, ...]:
    """All that the host of that URI lacks, each with the remedy; that it cannot be asked."""
    try:
        host = ask(uri)
    except LibvirtError as error:
        return (str(error),)
    return lacks(host, demands)


def checks_of(
    spec: ClusterSpec,
    _stack: str,
    _data: Path,
    ask: Ask = ask,
    tools: Callable[[], Iterable[str]] = tools_missing,
) -> Iterator[Finding]:
    """The tools of this machine, and each host.

    Raises:
        SpecError: the options of libvirt have mistakes.
    """
    options = read_options(spec)
    if missing := tuple(tools()):
        yield from (Finding("tools of libvirt", "lacks", tool) for tool in missing)
        return
    hosts: Mapping[str, str] = options.place.hosts
    # Over SSH, each takes a second.
    with ThreadPoolExecutor(max(1, len(hosts))) as threads:
        asked = {
            name: threads.submit(partial(lacks_of_host, uri, demands(spec, options, name), ask))
            for name, uri in hosts.items()
        }
        for name, found in asked.items():
            what = f"host {name} of libvirt"
            yield from (Finding(what, "lacks", lack) for lack in found.result())
            if not found.result():
                yield Finding(what, "well", f"{hosts[name]} has all that is asked of it")


def _lacks(demands: Demands, home: Home) -> Iterable[str]:
    if missing := tuple(tools_missing(home.environment)):
        return missing
    return lacks_of_host(demands.uri, demands.demands)


PREFLIGHT = Preflight(Demands, _lacks)
