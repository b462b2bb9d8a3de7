"""Nodes with room, grouped: those that are alike in all that matters are one bin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from tidepool.scaling.decide.demand.fit import FreeResources, Need
from tidepool.scaling.decide.demand.offer import Offer

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
        """The bin that holds this node."""
        return next((bin for bin in self._bins[fleet].values() if name in bin.names), None)

    def is_vacant(self, name: str, fleet: str) -> bool:
        """Return whether a new node can have this name."""
        return name in self._vacant.get(fleet, ())

    def take(self, bin: Bin, count: int) -> list[str]:
        """Take the nodes with the lowest names out of a bin."""
        names = bin.names[: -count - 1 : -1]
        del bin.names[-count:]
        return names

    def take_named(self, bin: Bin, name: str) -> list[str]:
        """Take one node out of a bin."""
        bin.names.remove(name)
        return [name]

    def open(self, fleet: str, count: int) -> list[str]:
        """Take the lowest free names for new nodes."""
        vacant = self._vacant[fleet]
        names = vacant[: -count - 1 : -1]
        del vacant[-count:]
        self._opened(fleet, names)
        return names

    def open_named(self, fleet: str, name: str) -> list[str]:
        """Take one free name for a new node."""
        self._vacant[fleet].remove(name)
        self._opened(fleet, [name])
        return [name]

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
        offer = self.offers[fleet]
        return Kind(fleet, NEW, True, "", FreeResources(offer.cpus, offer.memory_mib, offer.gres))


def _left(resources: FreeResources, need: Need, offer: Offer) -> int:
    """Return how much is left of a node's room, in shares of what the node is; less is a better fit."""
    left = (resources.cpus - need.cpus) * _SCALE // offer.cpus
    left += (resources.memory_mib - need.memory_mib) * _SCALE // offer.memory_mib
    if resources.gres:
        asked = sum(count for _, count in need.gres)
        left += (sum(resources.gres) - asked) * _SCALE // sum(offer.gres)
    return left
