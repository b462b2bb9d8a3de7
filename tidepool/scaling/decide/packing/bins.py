"""Nodes with room, grouped: those that are alike in all that matters are one bin. Packing begins with those that are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from tidepool.clients.slurm import Job, Node
from tidepool.scaling.cluster_state import ClusterState, job_nodes
from tidepool.scaling.decide.demand.fit import Ask, FreeResources, Need, Offer, ask_of, empty, need, taken
from tidepool.scaling.decision import Phase
from tidepool.scaling.memory import Memory

#: Up; drained by the scaler, and put back into service at once. After these come those that are being made, the
#: oldest first, and then new ones. In this order, what a decision makes new stands where it stood when it was
#: decided, whenever it is decided again.
UP: Final = 0
DRAINED: Final = 1
LAUNCHING: Final = 2
NEW: Final = 1 << 30
#: Between them, what a decision has just made up its mind to make: the next sees it so.
DECIDED: Final = NEW - 1

_SCALE: Final = 1000


class Kind(NamedTuple):
    """A kind of nodes that are alike. ``whole``: no job has any of it; else ``sole`` says with whom it is shared."""

    fleet: str
    rank: int
    whole: bool
    sole: str
    resources: FreeResources


class Option(NamedTuple):
    """A fleet that will do, what a node of it has to give, and with whom it is shared (`Kind`)."""

    fleet: str
    need: Need
    sole: str


class Bin:
    """Nodes of a kind. The lowest names come last, where they are taken from."""

    __slots__ = ("kind", "names")

    def __init__(self, kind: Kind, names: list[str]) -> None:
        self.kind = kind
        self.names = names


class Bins:
    """All nodes with room, by fleet; and the names that new ones get."""

    def __init__(
        self,
        offers: Mapping[str, Offer],
        there: Mapping[Kind, Sequence[str]],
        vacancies: Mapping[str, Sequence[str]],
    ) -> None:
        self.offers = offers
        self._bins: dict[str, dict[Kind, Bin]] = {fleet: {} for fleet in offers}
        for kind, names in there.items():
            self._bins[kind.fleet][kind] = Bin(kind, list(reversed(names)))
        self._vacant = {fleet: list(reversed(names)) for fleet, names in vacancies.items()}
        #: By fleet, new nodes that were taken: how many, and their names.
        self.launched: dict[str, int] = {}
        self.opened: dict[str, list[str]] = {}

    def vacant(self, fleet: str) -> int:
        """Return how many names are left for new nodes."""
        return len(self._vacant.get(fleet, ()))

    def fitting(self, options: Iterable[Option], *, whole_only: bool = False) -> list[tuple[Bin, Option]]:
        """The bins whose nodes can give what one of ``options`` asks of them, the best first.

        By rank; then those that jobs share before those that are empty, the fullest first; then in the options' order.
        """
        found = []
        for preference, option in enumerate(options):
            fleet, need, sole = option
            offer = self.offers[fleet]
            for bin in self._bins[fleet].values():
                kind = bin.kind
                if kind.whole:
                    if not bin.names or not need.fits(kind.resources):
                        continue
                    found.append(((kind.rank, 1, 0, preference), bin, option))
                elif (
                    not whole_only and kind.sole == sole != "job" and bin.names and need.fits(kind.resources)
                ):
                    found.append(
                        ((kind.rank, 0, _left(kind.resources, need, offer), preference), bin, option)
                    )
        found.sort(key=itemgetter(0))
        return [(bin, option) for _, bin, option in found]

    def named(self, name: str, fleet: str) -> Bin | None:
        return next((bin for bin in self._bins[fleet].values() if name in bin.names), None)

    def is_vacant(self, name: str, fleet: str) -> bool:
        """Return whether a new node can have this name."""
        return name in self._vacant.get(fleet, ())

    def take(self, bin: Bin, count: int, name: str = "") -> list[str]:
        """Take the nodes with the lowest names out of a bin, or the one that is named."""
        return _taken(bin.names, count, name)

    def open(self, fleet: str, count: int, name: str = "") -> list[str]:
        """Take the lowest free names for new nodes, or that name."""
        names = _taken(self._vacant[fleet], count, name)
        self._opened(fleet, names)
        return names

    def _opened(self, fleet: str, names: Sequence[str]) -> None:
        self.launched[fleet] = self.launched.get(fleet, 0) + len(names)
        self.opened.setdefault(fleet, []).extend(names)

    def decided(self, opened: Mapping[str, Sequence[str]]) -> None:
        """Take new nodes, for nobody yet: they are there for all, after what is being made already."""
        for fleet, names in opened.items():
            chosen = set(names)
            vacant = self._vacant[fleet]
            self._opened(fleet, names)
            self._vacant[fleet] = [name for name in vacant if name not in chosen]
            kind = self.new(fleet)._replace(rank=DECIDED)
            self._bins[fleet][kind] = Bin(kind, [name for name in vacant if name in chosen])

    def times(self, bin: Bin | None, option: Option, *, fresh: bool) -> int:
        """Return how many jobs one of a bin's nodes takes, or a new one; ``fresh``: such that share with none."""
        if fresh or option.sole == "job":
            return 1
        return option.need.times_in(bin.kind.resources if bin else empty(self.offers[option.fleet]))

    def put(self, was: Kind, names: list[str], need: Need, times: int, sole: str) -> None:
        """Give ``need``, ``times`` times, on each of these nodes, and put them where they belong with what is left."""
        resources = need.from_(was.resources, times)
        if not resources.cpus:
            return
        kind = Kind(was.fleet, was.rank, False, sole, resources)
        bin = self._bins[was.fleet].get(kind)
        if bin is None:
            bin = self._bins[was.fleet][kind] = Bin(kind, [])
        bin.names.extend(reversed(names))

    def new(self, fleet: str) -> Kind:
        """Return the kind that new nodes of a fleet are."""
        return Kind(fleet, NEW, True, "", empty(self.offers[fleet]))


def _taken(names: list[str], count: int, name: str) -> list[str]:
    if name:
        names.remove(name)
        return [name]
    taken = names[: -count - 1 : -1]
    del names[-count:]
    return taken


def _left(resources: FreeResources, need: Need, offer: Offer) -> int:
    """Return how much is left of a node's room, in shares of what the node is; less is a better fit."""
    left = (resources.cpus - need.cpus) * _SCALE // offer.cpus
    left += (resources.memory_mib - need.memory_mib) * _SCALE // offer.memory_mib
    if resources.gres:
        asked = sum(count for _, count in need.gres)
        left += (sum(resources.gres) - asked) * _SCALE // sum(offer.gres)
    return left


_RANKS = {Phase.IDLE: UP, Phase.BUSY: UP, Phase.DRAINING: DRAINED, Phase.DRAINED: DRAINED}


def there(
    state: ClusterState, memory: Memory, phases: Mapping[str, Phase], offers: Mapping[str, Offer]
) -> Mapping[Kind, Sequence[str]]:
    """The nodes with room by their kind, the lowest names first."""
    nodes = {node.name: node for node in state.nodes}
    sole, gres = _held_by_jobs(state.jobs, nodes, offers)
    generations = _generations(memory)
    found: dict[Kind, list[str]] = {}
    for name, phase in phases.items():
        fleet = name.rpartition("-")[0]
        offer = offers.get(fleet)
        if offer is None:
            continue
        if phase is Phase.LAUNCHING:
            kind = Kind(fleet, LAUNCHING + generations.get(name, 0), True, "", empty(offer))
        elif phase in _RANKS and name in nodes:
            kind = _up(nodes[name], offer, _RANKS[phase], sole.get(name), gres.get(name))
        else:
            continue
        if kind.resources.cpus > 0:
            found.setdefault(kind, []).append(name)
    for names in found.values():
        names.sort(key=_number)
    # The order of what was seen must not matter.
    return dict(sorted(found.items()))


def _number(name: str) -> tuple[int, str]:
    number = name.rpartition("-")[2]
    return (int(number) if number.isdecimal() else 0), name


def _up(node: Node, offer: Offer, rank: int, sole: str | None, gres: tuple[int, ...] | None) -> Kind:
    cpus = node.cpus - node.cpus_alloc
    memory_mib = node.memory_mib - node.memory_alloc_mib if offer.counts_memory else node.memory_mib
    free = _free_gres(node, offer, gres)
    whole = sole is None and cpus == node.cpus and memory_mib == node.memory_mib and free == offer.gres
    resources = FreeResources(0 if sole == "job" else max(cpus, 0), max(memory_mib, 0), free)
    return Kind(offer.fleet, rank, whole, sole or "", resources)


def _free_gres(node: Node, offer: Offer, by_jobs: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return what is left of a node's gres: by what its jobs asked for, and by TRES, where Slurm counts it there."""
    free = offer.gres if by_jobs is None else by_jobs
    for pack, (name, type) in enumerate(offer.gres_kinds):
        counted = node.tres_alloc.get(f"gres/{name}:{type}" if type else f"gres/{name}", "")
        if counted.isdecimal():
            left = max(0, offer.gres[pack] - int(counted))
            free = (*free[:pack], min(free[pack], left), *free[pack + 1 :])
    return free


def _held_by_jobs(
    jobs: Iterable[Job], nodes: Mapping[str, Node], offers: Mapping[str, Offer]
) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
    """By node: with whom its jobs share it; and what gres they leave."""
    sole: dict[str, str] = {}
    gres: dict[str, tuple[int, ...]] = {}
    for job in jobs:
        if not job.nodelist:
            continue
        alone = job.oversubscribe in {"NO", "USER", "MCS"}
        with_gres = job.tres_per_node or job.tres_per_job or job.tres_per_task or job.tres_per_socket
        if not (alone or with_gres):
            continue
        try:
            names, ask = job_nodes(job), ask_of(job)
        except ValueError:
            continue
        for name in names:
            offer = offers.get(name.rpartition("-")[0])
            if offer is None or name not in nodes:
                continue
            if alone:
                sole[name] = ask.sole
            if ask.has_gres:
                gres[name] = _without(gres.get(name, offer.gres), ask, offer, len(names))
    return sole, gres


def _without(free: tuple[int, ...], ask: Ask, offer: Offer, nodes: int) -> tuple[int, ...]:
    asked = need(ask._replace(sole=""), offer, -(-ask.tasks // nodes), nodes)
    left = taken(free, asked.gres) if asked is not None else None
    # More than there is: another shape than the spec's by now. Then there is none left.
    return tuple(0 for _ in free) if left is None else left


def _generations(memory: Memory) -> Mapping[str, int]:
    """By node that is being made: the how manieth time of launching it is of, the oldest being 0."""
    times = {
        since: pack for pack, since in enumerate(sorted({each.since for each in memory.launches.values()}))
    }
    return {name: times[launch.since] for name, launch in memory.launches.items()}
