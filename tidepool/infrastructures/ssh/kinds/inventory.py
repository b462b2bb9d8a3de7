"""tidepool:ssh:Inventory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidepool.infrastructures.ssh.ask import Ask, ask
from tidepool.infrastructures.ssh.checks import Wanted, lacks_of_hosts
from tidepool.infrastructures.ssh.demand import Demand
from tidepool.resources.difference import Rules
from tidepool.resources.kind import Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader


class SshInventoryKind(Kind[Wanted]):
    """Hosts that are fit to be nodes. They are asked in previews, before anything is done on one."""

    token = "tidepool:ssh:Inventory"  # noqa: S105 - a type of resource
    keys = frozenset({"stack", "systems", "users", "hosts"})
    rules = Rules(replaces=frozenset({"stack"}))

    def __init__(self, home: Home, ask: Ask = ask) -> None:
        self._ask = ask

    def read(self, reader: Reader) -> Wanted:
        return Wanted(
            reader.text("stack"),
            reader.texts("systems"),
            dict(_account(each) for each in reader.maps("users")),
            tuple(_host(each) for each in reader.maps("hosts")),
        )

    def mistakes(self, wanted: Wanted) -> Iterable[Mistake]:
        """All that is wrong with all hosts, at once."""
        for demand, wrong in lacks_of_hosts(wanted, self._ask):
            # Of the stack, which is short: Pulumi shows the value beside the reason.
            yield from (Mistake("stack", f"{demand.path}: the host {demand.host}: {each}") for each in wrong)

    def create(self, wanted: Wanted, task: Task) -> Made:
        return Made(wanted.stack)


def _account(reader: Reader) -> tuple[str, tuple[int, int]]:
    name, numbers = reader.text("name"), (reader.integer("uid", least=1), reader.integer("gid", least=1))
    for key in ("home", "shell"):
        reader.text(key, "")
    reader.refuse_others()
    return name, numbers


def _host(reader: Reader) -> tuple[Demand, Mapping[str, Any]]:
    demand = Demand(
        reader.text("path"),
        reader.text("host"),
        reader.integer("cpus", least=1),
        reader.integer("memoryMib", least=1),
    )
    connection = reader.mapping("connection")
    reader.refuse_others()
    return demand, connection
