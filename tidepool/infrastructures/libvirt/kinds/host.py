"""tidepool:libvirt:Host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tidepool.infrastructures.libvirt.ask import ask, tools_missing
from tidepool.infrastructures.libvirt.capabilities import Host
from tidepool.infrastructures.libvirt.checks import lacks_of_host
from tidepool.infrastructures.libvirt.cpu_list import read_cpus
from tidepool.infrastructures.libvirt.demand import Demand
from tidepool.resources.difference import Rules
from tidepool.resources.kind import Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the inputs say."""

    uri: str
    demands: tuple[Demand, ...]


class LibvirtHostKind(Kind[Wanted]):
    """A host that has all that is asked of it. It is asked in previews, before anything is made on it."""

    token = "tidepool:libvirt:Host"  # noqa: S105 - a type of resource
    keys = frozenset({"uri", "demands"})
    rules = Rules(replaces=frozenset({"uri"}))

    def __init__(
        self,
        home: Home,
        ask: Callable[[str], Host] = ask,
        tools: Callable[[Mapping[str, str]], Iterable[str]] = tools_missing,
    ) -> None:
        self._environment = home.environment
        self._ask = ask
        self._tools = tools

    def read(self, reader: Reader) -> Wanted:
        uri = reader.text("uri")
        return Wanted(uri, tuple(_demand(each) for each in reader.maps("demands")))

    def mistakes(self, wanted: Wanted) -> Iterable[Mistake]:
        if missing := tuple(self._tools(self._environment)):
            yield from (Mistake("uri", tool) for tool in missing)
            return
        # Of the URI, which is short: Pulumi shows the value beside the reason.
        yield from (Mistake("uri", lack) for lack in lacks_of_host(wanted.uri, wanted.demands, self._ask))

    def create(self, wanted: Wanted, task: Task) -> Made:
        return Made(wanted.uri)


def _demand(reader: Reader) -> Demand:
    demand = Demand(
        path=reader.text("path"),
        machines=reader.integer("machines", least=1),
        cpus=reader.integer("cpus", least=1),
        memory_mib=reader.integer("memoryMib", least=1),
        virtualization=reader.text("virtualization"),
        machine_type=reader.text("machineType"),
        cells={
            int(node): _cpus(reader, "cells", cpus)
            for node, cpus in reader.texts_by_name("cells", {}).items()
        }
        or None,
        emulator_cpus=_cpus(reader, "emulatorCpus", reader.text("emulatorCpus", "")),
        page_kib=reader.integer("pageKib", 0),
        pci=reader.texts("pci"),
    )
    reader.refuse_others()
    return demand


def _cpus(reader: Reader, key: str, text: str) -> tuple[int, ...]:
    if not text:
        return ()
    try:
        return tuple(read_cpus(text))
    except ValueError as error:
        reader.refuse(key, str(error))
        return ()
