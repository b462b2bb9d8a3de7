"""Checks of a Nomad: a preview looks at the same as `tidepool doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from tidepool.cluster.failures import InfrastructureError, Permanent
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.finding import Finding
from tidepool.infrastructures.nomad.api import Api
from tidepool.infrastructures.nomad.ask import rights_missing, there
from tidepool.infrastructures.nomad.demand import Demand, demands
from tidepool.infrastructures.nomad.machines import api_of
from tidepool.infrastructures.nomad.options import SiteOptions
from tidepool.infrastructures.nomad.preflight import lacks
from tidepool.infrastructures.nomad.reading import read_options

#: What a lack is of: what the token may, the hosts, or that nobody answers.
Of = Literal["namespace", "stack", "api"]


def lacks_there(
    open: Callable[[], Api], address: str, namespace: str, demands: Sequence[Demand], stack: str
) -> Iterator[tuple[Of, str]]:
    """All that it lacks, each with the remedy; that it cannot be asked."""
    try:
        api = open()
        missing = rights_missing(api, namespace)
        yield from (("namespace", each) for each in missing)
        if any("hosts" in each for each in missing):
            return
        found = there(api, [demand.host for demand in demands if demand.host], stack)
    except Permanent as error:
        yield "api", str(error)
        return
    except InfrastructureError as error:
        remedy = "is the agent up, and the address right? try: nomad status -address="
        yield "api", f"{error}; {remedy}{address}"
        return
    yield from (("stack", lack) for lack in lacks(found, demands, stack))


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
    yield from (Finding(what, "lacks", lack) for _, lack in found)
    if not found:
        yield Finding(what, "well", "it answers, and the token and the hosts are as is asked of them")
