"""`make_workload`: a workload from its kind, what a person said of it, and a seed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Final

from tidepool.cluster.part_reading import read_part
from tidepool.cluster.spec_entries import Mistake, nearest
from tidepool.lab.errors import LabError
from tidepool.lab.generators.array import Array
from tidepool.lab.generators.bag import Bag
from tidepool.lab.generators.burst import Burst
from tidepool.lab.generators.dag import Dag
from tidepool.lab.generators.deaths import Deaths
from tidepool.lab.generators.failures import Failures
from tidepool.lab.generators.gang import Gang
from tidepool.lab.generators.kernels import Kernels
from tidepool.lab.generators.lublin import Lublin
from tidepool.lab.generators.parameters import Parameters
from tidepool.lab.generators.priorities import Priorities
from tidepool.lab.generators.swf import Swf
from tidepool.lab.workload import Workload

KINDS: Final[Mapping[str, type[Parameters]]] = MappingProxyType(
    {
        "array": Array,
        "bag": Bag,
        "burst": Burst,
        "dag": Dag,
        "deaths": Deaths,
        "failures": Failures,
        "gang": Gang,
        "kernels": Kernels,
        "lublin": Lublin,
        "priorities": Priorities,
        "swf": Swf,
    }
)
"""Kinds of workloads by their words in the laboratory's file."""


def make_workload(name: str, kind: str, parameters: Mapping[str, object], seed: int) -> Workload:
    """Return the workload of this seed: the same every time.

    Raises:
        LabError: there is no such kind, or parameters are wrong: all that are, with what is allowed.
    """
    if kind not in KINDS:
        raise LabError(f"workload {name}: there is no kind {kind!r}; {nearest(kind, list(KINDS))}")
    mistakes: list[Mistake] = []
    read = read_part(KINDS[kind], name, parameters, mistakes)
    if read is None:
        number = "one mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        raise LabError("\n  ".join([f"{number} in the workload {name} ({kind}):", *map(str, mistakes)]))
    # Chances of their own: another number of jobs leaves deaths as they are.
    jobs = read.jobs(Random(f"{seed}/jobs"))  # noqa: S311 - chance that can be repeated
    deaths = read.deaths(Random(f"{seed}/deaths"))  # noqa: S311
    return Workload(
        name, kind, seed, jobs, deaths, MappingProxyType(read.model_dump(mode="json", by_alias=True))
    )
