"""Checks of a Nomad: a preview looks at the same as `tidepool doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidepool.cluster.failures import InfrastructureError, Permanent
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.finding import Finding, Preflight
from tidepool.infrastructures.nomad.api import Api
from tidepool.infrastructures.nomad.ask import rights_missing, there
from tidepool.infrastructures.nomad.demand import Demand, Demands, demands
from tidepool.infrastructures.nomad.machines import api_of
from tidepool.infrastructures.nomad.options import SiteOptions
from tidepool.infrastructures.nomad.preflight import lacks
from tidepool.infrastructures.nomad.reading import read_options

if TYPE_CHECKING:
    from tidepool.resources.kind import Home


def lacks_there(
    open: Callable[[], Api], address: str, namespace: str, demands: Sequence[Demand], stack: str
) -> Iterator[str]:
    """All that it lacks, each with the remedy; that it cannot be asked."""
    try:
        api = open()
        missing = rights_missing(api, namespace)
        yield from missing
        if any("hosts" in each for each in missing):
            return
        found = there(api, [demand.host for demand in demands if demand.host], stack)
    except Permanent as error:
        yield str(error)
        return
    except InfrastructureError as error:
        remedy = "is the agent up, and the address right? try: nomad status -address="
        yield f"{error}; {remedy}{address}"
        return
    yield from lacks(found, demands, stack)


def checks_of(
    spec: ClusterSpec, stack: str, _data: Path, open: Callable[[SiteOptions], Api] = api_of
) -> Iterator[Finding]:
    """Check the rights of the token, and the hosts.

    Raises:
        SpecError: the options of Nomad have mistakes.
    """
    options = read_options(spec)
    place = options.place
    what = f"Nomad at {place.address}"
    asked = demands(spec, options)
    found = tuple(lacks_there(lambda: open(place), place.address, place.namespace, asked, stack))
    yield from (Finding(what, "lacks", lack) for lack in found)
    if not found:
        yield Finding(what, "well", "it answers, and the token and the hosts are as is asked of them")


def _lacks(demands: Demands, home: Home) -> Iterator[str]:
    api = demands.api
    environment = home.environment
    return lacks_there(
        lambda: api.open(environment), api.address, demands.namespace, demands.demands, demands.stack
    )


PREFLIGHT = Preflight(Demands, _lacks)
