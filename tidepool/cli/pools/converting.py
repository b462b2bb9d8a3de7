"""From a person's request to conversions that ended: looks, writes the orders down, has them carried out, and tells."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

from tidepool.cli import errors, show
from tidepool.cli.cluster import parse_outputs
from tidepool.cli.context import Connection
from tidepool.cli.errors import NOT_THERE, USAGE, Failure
from tidepool.cli.explain.lines import (
    ENDINGS,
    holds,
    phase_words,
    phases,
    took_s,
    way,
    what_comes,
    work_words,
)
from tidepool.cli.pools import (
    Pools,
    busy,
    image_roles,
    observe_kubernetes,
    open_conversions,
    require_pools,
    under_way,
)
from tidepool.cli.pools.checks import Known, mistakes
from tidepool.cli.pools.driver import Driven, Driver, Moves
from tidepool.cli.show import document, span
from tidepool.cli.stack import Stack
from tidepool.cluster.hostlist import fold
from tidepool.cluster.roles import AtDeadline, Role
from tidepool.conversion.journal import Journal
from tidepool.conversion.next_step import other
from tidepool.conversion.ports import ConversionError
from tidepool.conversion.record import CANCELLABLE, Conversion, Order
from tidepool.journals.processes import is_driven

_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms that a person orders a conversion with; None leaves one to the pool."""

    to: Role
    reason: str
    is_forced: bool
    deadline_s: float | None
    at_deadline: AtDeadline | None


def converted(
    stack: Stack, wanted: Sequence[str], terms: Terms, driver: Driver, *, no_wait: bool, as_json: bool
) -> int:
    """Have ``wanted`` converted; the exit code.

    Raises:
        Failure: something speaks against it; nothing was changed.
    """
    outputs = stack.outputs() or {}
    pools = require_pools(stack, outputs)
    with closing(open_conversions(stack)) as journal:
        controller = parse_outputs(stack.name, outputs).controller
        known, last = _look(stack, controller, pools, journal, wanted, other(terms.to))
        _refuse(list(mistakes(wanted, terms.to, known)), known)
        going = [
            node
            for node in wanted
            if not _has(node, terms.to, pools, known.under_way.get(node), last.get(node))
        ]
        if there := [node for node in wanted if node not in going]:
            show.tell(f"{fold(there)}: {'serve' if len(there) > 1 else 'serves'} {terms.to} already")
        if not going:
            if as_json:
                show.emit([])
            return errors.OK
        orders = [_order(node, pools, terms) for node in going]
        ordered = _ordered(journal, orders, known, last, pools)
        for line in _other_terms(orders, ordered):
            show.tell(line)
        waits = frozenset() if terms.is_forced else known.busy & set(going)
        is_unsure = any(
            node in last and (last[node].phase == "failed" or _is_unwritten(last[node], pools.role(node)))
            for node in going
        )
        driver.go(Moves(dict.fromkeys(going, terms.to), is_unsure, waits))
        if no_wait:
            return _left(ordered, as_json)
        return _followed(journal, ordered, driver, "done", as_json)


def cancelled(stack: Stack, wanted: Sequence[str], driver: Driver, *, no_wait: bool, as_json: bool) -> int:
    """Have what is under way on ``wanted`` go back; the exit code.

    Raises:
        Failure: there is nothing to cancel, or it is too late; nothing was changed.
    """
    pools = require_pools(stack, stack.outputs())
    with closing(open_conversions(stack)) as journal:
        going = under_way(journal.conversions())
        wrong = [f"{node}: no conversion of it is under way" for node in wanted if node not in going]
        wrong += [
            f"{node}: it is {going[node].phase}, past the point of no return; it comes to its end, and can be converted back"
            for node in wanted
            if node in going and going[node].phase not in CANCELLABLE and not going[node].cancel_by
        ]
        if wrong:
            raise Failure("\n".join(wrong), remedy="`tidepool pool show` says what is under way", code=USAGE)
        asked = [journal.cancel(node, stack.context.who) for node in wanted]
        # Whoever drives it sees it. Where nobody does, this has it carried out.
        now = datetime.now(UTC)
        alone = [each for each in asked if each.is_under_way and not is_driven(each, now)]
        if alone:
            driver.go(
                Moves(
                    {each.order.node: each.leaves or pools.role(each.order.node) for each in alone},
                    refresh=True,
                )
            )
        if no_wait:
            return _left(asked, as_json)
        return _followed(journal, asked, driver if alone else None, "stopped", as_json)


def _look(
    stack: Stack,
    controller: Connection,
    pools: Pools,
    journal: Journal,
    wanted: Collection[str],
    leaves: Role,
) -> tuple[Known, Mapping[str, Conversion]]:
    """Return what is known, and the last conversion of each of ``wanted`` that ended."""
    with ThreadPoolExecutor(2) as beside:
        kubernetes = beside.submit(observe_kubernetes, stack, pools.kubernetes, with_rights=True)
        work = beside.submit(busy, stack, controller, pools, leaves)
        now = under_way(journal.conversions(limit=0))
        last = {}
        for node in wanted:
            if ended := [each for each in journal.conversions(node=node, limit=5) if not each.is_under_way]:
                last[node] = ended[0]
        mine = {pools.machines[node].name for node in wanted if node in pools.machines}
        roles = image_roles(stack, [pools.pools[name] for name in mine])
        return Known(pools, kubernetes.result(), now, roles, work.result()), last


def _refuse(wrong: list[str], known: Known) -> None:
    if not wrong:
        return
    remedy = "nothing was changed; `tidepool pool show` says which machine has which role"
    only_there = len(wrong) == 1 and bool(known.kubernetes.failure)
    raise Failure("\n".join(wrong), remedy=remedy, code=NOT_THERE if only_there else USAGE)


def _has(node: str, to: Role, pools: Pools, going: Conversion | None, last: Conversion | None) -> bool:
    """Return whether it has the role, and nothing is to be done. After one that failed it may have none."""
    if going is not None or pools.role(node) != to:
        return False
    return last is None or (last.phase != "failed" and not _is_unwritten(last, to))


def _is_unwritten(last: Conversion, role: Role) -> bool:
    """Return whether the graph has ``role`` for a machine that was converted since: that `up` was cut off just then."""
    return last.phase == "done" and last.order.to != role


def _order(node: str, pools: Pools, terms: Terms) -> Order:
    pool = pools.machines[node]
    return Order(
        node=node,
        pool=pool.name,
        to=terms.to,
        at=datetime.now(UTC),
        by="person",
        reason=terms.reason,
        is_forced=terms.is_forced,
        deadline_s=terms.deadline_s or pool.deadline_s,
        at_deadline=terms.at_deadline or pool.at_deadline,
    )


def _ordered(
    journal: Journal, orders: Iterable[Order], known: Known, last: Mapping[str, Conversion], pools: Pools
) -> list[Conversion]:
    """Write down all of the orders, or none.

    Raises:
        ConversionError: one of them cannot be: somebody else was quicker.
    """
    written: list[Conversion] = []
    try:
        for order in orders:
            leaves: Role | None = pools.role(order.node)
            before = last.get(order.node)
            if before is not None and before.phase == "failed":
                leaves = None
            elif before is not None and _is_unwritten(before, pools.role(order.node)):
                leaves = before.order.to
            written.append(journal.order(order, leaves))
    except ConversionError:
        for each in written:
            if each.order.node not in known.under_way:
                journal.cancel(each.order.node, "an order beside it that could not be")
        raise
    return written


def _other_terms(orders: Iterable[Order], ordered: Iterable[Conversion]) -> Iterator[str]:
    """Tell of conversions that were under way already: their terms hold, and not those that were ordered now."""
    for wanted, there in zip(orders, ordered, strict=True):
        holds = there.order
        if wanted.is_forced or (holds.deadline_s, holds.at_deadline) == (
            wanted.deadline_s,
            wanted.at_deadline,
        ):
            continue
        what_then = "is given up" if holds.at_deadline == "stop" else "is forced"
        yield (
            f"{holds.node}: under way already, ordered by {holds.by} for {holds.deadline_s:g} s, after which it {what_then}; "
            f"that holds. For other terms: `tidepool convert {holds.node} --cancel`, and order it anew"
        )


def _left(ordered: Sequence[Conversion], as_json: bool) -> int:
    names = fold(each.order.node for each in ordered)
    show.tell(
        f"{names}: under way; `tidepool pool show` says how far, `tidepool convert {names} --cancel` has it go back"
    )
    if as_json:
        show.emit([as_document(each) for each in ordered])
    return errors.OK


def _followed(
    journal: Journal, ordered: Sequence[Conversion], driver: Driver | None, wanted: str, as_json: bool
) -> int:
    """Tell how far ``ordered`` are until they have ended; the exit code, by whether all came to ``wanted``."""
    ids = {each.id for each in ordered}
    since = min(each.order.at for each in ordered)
    progress = Progress(datetime.now(UTC))
    try:
        while True:
            driven = driver.ended(_LOOK_S) if driver is not None else None
            now = datetime.now(UTC)
            seen = [each for each in journal.conversions(since=since, limit=None) if each.id in ids]
            for line in progress.lines(seen, now):
                show.tell(line)
            if driven is not None or (driver is None and _is_over(seen, now)):
                break
            if driver is None:
                time.sleep(_LOOK_S)
    except KeyboardInterrupt:
        names = fold(each.order.node for each in ordered)
        show.tell(
            f"\nnobody watches any more, and it goes on: `tidepool pool show` says how far, `tidepool convert {names} "
            "--cancel` has it go back"
        )
        return errors.INTERRUPTED
    return _show_outcome(seen, driven, wanted, as_json)


def _show_outcome(seen: Sequence[Conversion], driven: Driven | None, wanted: str, as_json: bool) -> int:
    ordered = sorted(seen, key=lambda each: each.id)
    if as_json:
        show.emit([as_document(each) for each in ordered])
    else:
        for line in lines(ordered):
            show.say(line)
    if all(each.phase == wanted for each in ordered):
        # The `up` of one that is given up fails by that.
        if wanted != "done" or driven is None or driven.code == errors.OK:
            return errors.OK
        names = fold(each.order.node for each in ordered)
        show.tell_failure(
            "\n".join([f"{names}: {wanted}; and then the `up` that had it done failed", *driven.said]),
            "`tidepool up` writes down what is there",
        )
        return errors.FAILED
    wrong = [
        f"{each.order.node}: {each.text or each.phase}"
        if not each.is_under_way
        else f"{each.order.node}: nobody goes on with it, and it is {each.phase}"
        for each in ordered
        if each.phase != wanted
    ]
    # What the engine said stands in the conversions as well, where it is about them.
    more = [said for said in (driven.said if driven else ()) if any(each.is_under_way for each in ordered)]
    show.tell_failure(
        "\n".join([*wrong, *more]),
        "the same command again goes on from there; `tidepool why node "
        f"{ordered[0].order.node if ordered else 'NODE'}` says more",
    )
    return errors.FAILED


def _is_over(seen: Iterable[Conversion], now: datetime) -> bool:
    """Return whether all have ended, or nobody drives those that have not."""
    return all(not each.is_under_way or not is_driven(each, now) for each in seen)


_Key = tuple[str, tuple[str, ...], str]


class Progress:
    """The last line told of each machine. Machines with the same line share it."""

    def __init__(self, begun: datetime) -> None:
        self._begun = begun
        self._last: dict[str, _Key] = {}

    def lines(self, seen: Sequence[Conversion], now: datetime) -> Iterator[str]:
        """``  1.2 s  shared-[1-3]: waits for its work to end``, with what each waits for below it."""
        groups: dict[_Key, list[str]] = {}
        for each in sorted(seen, key=lambda one: one.id):
            key = (
                phase_words(each),
                tuple(holds(each)),
                what_comes(each, now) if each.phase == "emptying" else "",
            )
            if self._last.get(each.order.node) != key:
                self._last[each.order.node] = key
                groups.setdefault(key, []).append(each.order.node)
        passed_s = (now - self._begun).total_seconds()
        for (phase, held, comes), names in groups.items():
            yield f"{passed_s:5.1f} s  {fold(names)}: {phase}"
            for line in held:
                yield f"         {line}"
            if held and comes:
                yield f"         {comes}"


def as_document(conversion: Conversion) -> Mapping[str, Any]:
    """Return what the journal has of it, with the seconds of its phases."""
    return {**document(conversion), "phases": phases(conversion), "tookS": took_s(conversion)}


def lines(conversions: Sequence[Conversion]) -> Iterator[str]:
    """A line for each: ``shared-3: slurm -> kubernetes, done in 1.62 s (holding 0.1 s, ...)``."""
    for each in conversions:
        took = took_s(each)
        spent = ", ".join(f"{name} {span(seconds)}" for name, seconds in phases(each).items())
        after = f" in {took:.2f} s ({spent})" if took is not None else ""
        yield f"{each.order.node}: {way(each)}, {click.style(each.phase, fg=ENDINGS.get(each.phase))}{after}"
        yield from (f"  {work_words(work)}" for work in each.work if work.fate not in ("runs", "ended"))
