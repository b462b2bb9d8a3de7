"""Preflight of CloudStack: a spec's demands and what a zone has, in previews and by `tidepool doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidepool.cluster.failures import InfrastructureError, Permanent
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.cloudstack.api import Api, ApiLocation, NotAllowed
from tidepool.infrastructures.cloudstack.demands import Demands, demands
from tidepool.infrastructures.cloudstack.lacks import lacks
from tidepool.infrastructures.cloudstack.observation import look
from tidepool.infrastructures.cloudstack.reading import read_options
from tidepool.infrastructures.finding import Finding, Preflight, findings

if TYPE_CHECKING:
    from tidepool.resources.kind import Home


def lacks_there(demanded: Demands, open: Callable[[ApiLocation], Api] = ApiLocation.open) -> Iterator[str]:
    """All that it lacks, each with the remedy; that it cannot be asked."""
    try:
        there = look(open(demanded.api), demanded)
    except NotAllowed as error:
        remedy = "check CLOUDSTACK_KEY and CLOUDSTACK_SECRET, or what the role may"
        yield f"{demanded.path}: {error}; {remedy}"
        return
    except Permanent as error:
        yield f"{demanded.path}: {error}"
        return
    except InfrastructureError as error:
        yield f"{demanded.path}: {error}; is the endpoint right? try: cs listCapabilities"
        return
    yield from lacks(there, demanded)


def checks_of(
    spec: ClusterSpec, stack: str, _data: Path, open: Callable[[ApiLocation], Api] = ApiLocation.open
) -> Iterator[Finding]:
    """Check the keys, the zone, and what the owner may have."""
    options = read_options(spec)
    found = lacks_there(demands(spec, stack, options), open)
    well = "it answers, and has all that is asked of it"
    return findings(f"CloudStack at {options.place.endpoint}", found, well)


def _missing(demanded: Demands, _home: Home) -> Iterator[str]:
    return lacks_there(demanded)


PREFLIGHT = Preflight(Demands, _missing)
