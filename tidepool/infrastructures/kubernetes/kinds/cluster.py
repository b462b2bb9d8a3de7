"""tidepool:kubernetes:Place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tidepool.cluster.hostlist import expand
from tidepool.infrastructures.kubernetes.checks import USES, lacks_of_site
from tidepool.infrastructures.kubernetes.demand import Demand
from tidepool.infrastructures.kubernetes.preflight import Wish
from tidepool.resources.difference import Rules
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader
from tidepool.resources.values import Plain


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the inputs say."""

    kubeconfig: str
    wish: Wish
    uses: tuple[str, ...]


class KubernetesPlaceKind(Kind[Wanted]):
    """A Kubernetes that has all that a stack asks of it. It is asked in previews, before anything is made there."""

    token = "tidepool:kubernetes:Place"  # noqa: S105 - a type of resource
    keys = frozenset({"stack", "kubeconfig", "path", "namespace", "ownNamespace", "uses", "demands"})
    rules = Rules(replaces=frozenset({"stack", "namespace"}))

    def __init__(self, home: Home) -> None:
        self._home = home

    def read(self, reader: Reader) -> Wanted:
        wish = Wish(
            reader.text("stack"),
            reader.text("path"),
            reader.text("namespace"),
            reader.flag("ownNamespace", default=True),
            tuple(_demand(each) for each in reader.maps("demands")),
        )
        return Wanted(reader.text("kubeconfig"), wish, reader.texts("uses"))

    def mistakes(self, wanted: Wanted) -> Iterable[Mistake]:
        if unknown := [use for use in wanted.uses if use not in USES]:
            yield Mistake("uses", f"{', '.join(unknown)}: allowed are {', '.join(USES)}")
            return
        found = lacks_of_site(wanted.wish, wanted.uses, Path(wanted.kubeconfig), self._home.data)
        # Of the path, which is short: Pulumi shows the value beside the reason.
        yield from (Mistake("kubeconfig", lack) for lack in found)

    def create(self, wanted: Wanted, task: Task) -> Made:
        return Made(f"{wanted.wish.stack}/{wanted.wish.namespace}")

    def look(self, id: str, state: Wanted) -> dict[str, Plain] | None:
        return dict(AS_KNOWN)


def _demand(reader: Reader) -> Demand:
    demand = Demand(
        path=reader.text("path"),
        names=tuple(expand(reader.text("names", ""))),
        kind=reader.text("kind"),
        cpu_milli=reader.integer("cpuMilli", least=1),
        memory_mib=reader.integer("memoryMib", least=1),
        architecture=reader.text("architecture"),
        node_selector=reader.texts_by_name("nodeSelector", {}),
        extended={name: int(count) for name, count in reader.texts_by_name("extended", {}).items()},
        autoscaled=reader.flag("autoscaled", default=False),
    )
    reader.refuse_others()
    return demand
