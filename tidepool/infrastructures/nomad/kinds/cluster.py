"""tidepool:nomad:Cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tidepool.infrastructures.nomad.api import Api
from tidepool.infrastructures.nomad.checks import lacks_there
from tidepool.infrastructures.nomad.demand import Demand
from tidepool.infrastructures.nomad.kinds.api import ApiPlace, read_api, read_constraints
from tidepool.resources.difference import Rules
from tidepool.resources.kind import Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the inputs say."""

    api: ApiPlace
    namespace: str
    stack: str
    demands: tuple[Demand, ...]


class NomadClusterKind(Kind[Wanted]):
    """A Nomad that has all that is asked of it. It is asked in previews, before anything is made there."""

    token = "tidepool:nomad:Cluster"  # noqa: S105 - a type of resource
    keys = frozenset({"api", "namespace", "stack", "demands"})
    rules = Rules(replaces=frozenset({"stack"}))

    def __init__(
        self,
        home: Home,
        open: Callable[[ApiPlace, Mapping[str, str]], Api] = ApiPlace.open,
    ) -> None:
        self._environment = home.environment
        self._open = open

    def read(self, reader: Reader) -> Wanted:
        demands = tuple(_demand(each) for each in reader.maps("demands"))
        return Wanted(read_api(reader), reader.text("namespace"), reader.text("stack"), demands)

    def mistakes(self, wanted: Wanted) -> Iterable[Mistake]:
        api, namespace = wanted.api, wanted.namespace
        found = lacks_there(
            lambda: self._open(api, self._environment), api.address, namespace, wanted.demands, wanted.stack
        )
        # Hosts are of the stack's name, which is short: Pulumi shows the value beside the reason.
        yield from (Mistake(key, lack) for key, lack in found)

    def create(self, wanted: Wanted, task: Task) -> Made:
        return Made(wanted.stack)


def _ports(reader: Reader) -> Iterator[int]:
    for at, port in enumerate(reader.texts("ports")):
        if port.isdecimal():
            yield int(port)
        else:
            reader.refuse(f"ports[{at}]", f"it is {port!r}; the number of a port is wanted")


def _demand(reader: Reader) -> Demand:
    demand = Demand(
        path=reader.text("path"),
        host=reader.text("host", ""),
        count=reader.integer("count", 0),
        constraints=read_constraints(reader),
        drivers=reader.texts("drivers"),
        ports=tuple(_ports(reader)),
    )
    reader.refuse_others()
    return demand
