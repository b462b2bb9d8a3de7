"""tidepool:local:Network."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidepool.infrastructures.local.kernel import (
    BadSpec,
    Lack,
    LocalError,
    NetworkSpec,
    Plans,
    create_network,
    delete_network,
    preflight,
    read_network,
)
from tidepool.infrastructures.local.kinds.spec_mistakes import spec_mistakes
from tidepool.resources.difference import Rules
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader
from tidepool.resources.values import Plain


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the inputs say."""

    stack: str
    network: str
    cidr: str

    @property
    def spec(self) -> NetworkSpec:
        """As `tidepool.infrastructures.local.kernel` takes it.

        Raises:
            BadSpec: there are mistakes in it.
        """
        return NetworkSpec(self.stack, self.network, self.cidr)


class NetworkKind(Kind[Wanted]):
    """A switch. Before the first one is made it is seen whether this machine can make machines at all."""

    token = "tidepool:local:Network"  # noqa: S105 - a type of resource
    keys = frozenset({"stack", "network", "cidr", "state"})
    rules = Rules(replaces=keys - {"state"})
    always = {"state": "up"}  # noqa: RUF012 - nobody writes to it
    timeout_s = 30.0

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._lacks: dict[Plans, tuple[Lack, ...]] = {}

    def read(self, reader: Reader) -> Wanted:
        reader.text("state", "up")
        return Wanted(reader.text("stack"), reader.text("network"), reader.text("cidr"))

    def mistakes(self, wanted: Wanted) -> Iterable[Mistake]:
        try:
            spec = wanted.spec
        except BadSpec as error:
            return spec_mistakes(error, {"name": "network"})
        if self._stands(spec):
            return ()  # where it does, more can be made
        lacks = self._lacks_for(Plans(cidrs=(spec.cidr,)))
        return [Mistake("cidr" if lack.what.startswith("the range ") else "", str(lack)) for lack in lacks]

    def create(self, wanted: Wanted, task: Task) -> Made:
        create_network(self._home.data, wanted.spec, task.left_s)
        return Made(f"{wanted.stack}/{wanted.network}")

    def update(self, id: str, old: Wanted, wanted: Wanted, task: Task) -> Mapping[str, Plain]:
        create_network(self._home.data, wanted.spec, task.left_s)
        return {}

    def look(self, id: str, state: Wanted) -> Mapping[str, Plain] | None:
        found = read_network(self._home.data, state.stack, state.network)
        if found is None:
            return None
        if found.state == "dead":
            return {"state": "dead"}
        return AS_KNOWN if found.cidr == state.cidr else {"cidr": found.cidr}

    def delete(self, id: str, state: Wanted, task: Task) -> None:
        delete_network(self._home.data, state.stack, state.network, task.left_s)

    def _stands(self, spec: NetworkSpec) -> bool:
        try:
            there = read_network(self._home.data, spec.stack, spec.name)
        except LocalError:
            return False  # what hinders a look is among what this machine lacks
        return there is not None and there.cidr == spec.cidr and there.state == "up"

    def _lacks_for(self, plans: Plans) -> tuple[Lack, ...]:
        # It tries things out, so once for each process.
        with self._lock:
            if plans not in self._lacks:
                found = preflight(self._home.data, plans)
                self._lacks[plans] = tuple(lack for lack in found if lack.fatal)
            return self._lacks[plans]
