"""Nodes that are more than there may be (whose machine somebody else deletes, of a fleet that is gone, above `max_nodes`, beyond a lowered limit), and who goes first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.budget import Books, has_machine, price_of
from tidepool.scaling.decide.capacity import node_prices
from tidepool.scaling.decide.reconcile import Entry, Reconciled
from tidepool.scaling.decision import Phase
from tidepool.scaling.memory import at_location


def removal_order(state: ClusterState, idle_since: Mapping[str, datetime]) -> Callable[[Entry], Any]:
    """A key that sorts nodes: idle before busy, of an older image, dearest, idle for longest, of the highest slot.

    Of a fleet's infrastructures the last goes first. Low slots stay, so that what is left lies together, for jobs of several
    nodes.
    """
    prices = node_prices(state.spec)
    turns = {
        (fleet.name, each.key): turn
        for fleet in state.spec.fleets
        for turn, each in enumerate(fleet.infrastructures)
    }

    def key(entry: Entry) -> tuple[bool, bool, float, int, datetime, int, str]:
        return (
            entry.phase is Phase.BUSY or entry.has_jobs,
            not is_of_older_image(entry, state),
            -price_of(entry, prices),
            -turns.get((entry.fleet, entry.location), 0),
            idle_since.get(entry.name, state.at),
            -entry.number,
            entry.fleet,
        )

    return key


def is_of_older_image(entry: Entry, state: ClusterState) -> bool:
    """Return whether its fleet's machines are made from another image by now."""
    now = state.images.get(at_location(entry.fleet, entry.location), "")
    return is_older(entry.image, now)


def is_older(image: str, now: str) -> bool:
    """Return whether ``image``, a digest or its first digits, is another one than ``now``; of what is not known, that it is not."""
    return bool(image and now and not now.startswith(image))


_THERE: Final = frozenset({Phase.IDLE, Phase.BUSY, Phase.DRAINING, Phase.DRAINED})
_STAYS: Final = frozenset({Phase.IDLE, Phase.BUSY, Phase.LAUNCHING})
_DUST: Final = 1e-9


def find_excess(
    state: ClusterState, idle_since: Mapping[str, datetime], reconciled: Reconciled, books: Books
) -> Mapping[str, str]:
    """Return by node why it is one too many, in words: it should go, however much waits. Of nodes that are alike, the idle go before those that run jobs."""
    found = dict(_to_go(state, reconciled))
    if not _is_limited(state):
        return found
    order = removal_order(state, idle_since)
    rest = [each for each in reconciled.entries.values() if each.name not in found and has_machine(each)]
    # Those that are going anyhow are counted first.
    rest.sort(key=lambda each: (each.phase in _STAYS, order(each)))
    for names, reason in _over(state, rest, books):
        for name in names:
            found.setdefault(name, reason)
    return found


def _is_limited(state: ClusterState) -> bool:
    limits = state.spec.limits
    return any(
        most is not None
        for most in (
            limits.max_nodes,
            limits.price_usd_per_hour,
            limits.budget_usd_per_month,
            *(entry.max_nodes for fleet in state.spec.fleets for entry in fleet.infrastructures),
        )
    )


def _to_go(state: ClusterState, reconciled: Reconciled) -> Iterable[tuple[str, str]]:
    fleets = {fleet.name: fleet for fleet in state.spec.fleets}
    for entry in reconciled.entries.values():
        fleet = fleets.get(entry.fleet)
        if fleet is None:
            yield entry.name, f"there is no fleet {entry.fleet} any more"
        elif entry.number > fleet.max_nodes:
            yield entry.name, f"it is above max_nodes of {entry.fleet}, which is {fleet.max_nodes}"
        elif entry.location and entry.location not in {each.key for each in fleet.infrastructures}:
            yield entry.name, f"fleet {fleet.name} is not on {entry.location} any more"
        elif entry.is_ending and entry.phase in _THERE:
            # What is none of these, an `up` may just be making anew.
            yield entry.name, "somebody else deletes its machine"


def _over(state: ClusterState, rest: list[Entry], books: Books) -> Iterable[tuple[list[str], str]]:
    """``rest`` is in the order in which nodes go."""
    prices = node_prices(state.spec)
    located: defaultdict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in rest:
        located[entry.fleet, entry.location].append(entry)
    for fleet in state.spec.fleets:
        for here in fleet.infrastructures:
            if here.max_nodes is not None:
                there = located[fleet.name, here.key if len(fleet.infrastructures) > 1 else ""]
                yield (
                    _first(there, len(there) - here.max_nodes),
                    f"fleet {fleet.name} may have {here.max_nodes} nodes on {here.key} (its max_nodes)",
                )
    limits = state.spec.limits
    if limits.max_nodes is not None:
        yield (
            _first(rest, len(rest) - limits.max_nodes),
            f"all fleets together may have {limits.max_nodes} nodes (limits.max_nodes)",
        )
    priced = [entry for entry in rest if price_of(entry, prices) > 0]
    if limits.price_usd_per_hour is not None:
        over = books.usd_per_hour - limits.price_usd_per_hour
        names = []
        for entry in priced:
            if over <= _DUST:
                break
            over -= price_of(entry, prices)
            names.append(entry.name)
        yield (
            names,
            f"all machines together may cost {limits.price_usd_per_hour:g} USD an hour (limits.price_usd_per_hour)",
        )
    budget = limits.budget_usd_per_month
    if budget is not None and books.spent.usd + books.bound_usd > budget + _DUST:
        # Jobs that run are let run. That no others begin is all that can be done.
        yield (
            [entry.name for entry in priced],
            f"the month's budget of {budget:g} USD is spent, or bound by jobs that run (limits.budget_usd_per_month)",
        )


def _first(rest: list[Entry], count: int) -> list[str]:
    return [entry.name for entry in rest[: max(0, count)]]
