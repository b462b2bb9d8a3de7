"""tidepool:local:Network."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

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
from tidepool.infrastructures.local.resources import Network, NetworkModel
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain


def _spec(wanted: NetworkModel) -> NetworkSpec:
    """The network, as the kernel takes it.

    Raises:
        BadSpec: there are mistakes in it.
    """
    return NetworkSpec(wanted.stack, wanted.network, wanted.cidr)


class NetworkKind(Kind[NetworkModel]):
    """A switch. Before the first one is made it is seen whether this machine can make machines at all."""

    resource = Network
    timeout_s = 30.0

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._lacks: dict[Plans, tuple[Lack, ...]] = {}

    def mistakes(self, wanted: NetworkModel) -> Iterable[Mistake]:
        try:
            spec = _spec(wanted)
        except BadSpec as error:
            return spec_mistakes(error, {"name": "network"})
        if self._stands(spec):
            return ()  # where it does, more can be made
        lacks = self._lacks_for(Plans(cidrs=(spec.cidr,)))
        return [Mistake("cidr" if lack.what.startswith("the range ") else "", str(lack)) for lack in lacks]

    def create(self, wanted: NetworkModel, task: Task) -> Made:
        create_network(self._home.data, _spec(wanted), task.left_s)
        return Made(f"{wanted.stack}/{wanted.network}")

    def update(self, id: str, old: NetworkModel, wanted: NetworkModel, task: Task) -> Mapping[str, Plain]:
        create_network(self._home.data, _spec(wanted), task.left_s)
        return {}

    def look(self, id: str, state: NetworkModel) -> Mapping[str, Plain] | None:
        found = read_network(self._home.data, state.stack, state.network)
        if found is None:
            return None
        if found.state == "dead":
            return {"state": "dead"}
        return AS_KNOWN if found.cidr == state.cidr else {"cidr": found.cidr}

    def delete(self, id: str, state: NetworkModel, task: Task) -> None:
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
