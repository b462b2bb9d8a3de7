"""Changes of a machine's role, and their outcomes: by orders in the journal of conversions, and in no other way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from tidepool.cluster.roles import ROLES, Role
from tidepool.conversion.convert import Parties
from tidepool.conversion.journal import Journal
from tidepool.conversion.next_step import SAID, other
from tidepool.conversion.ports import OUR_HOLD, ConversionError, Side
from tidepool.conversion.record import Conversion, Order, Work

_LEAVES: Final = "it leaves the pool"
#: By which the hold is known as ours.
_HOLD: Final = f"{OUR_HOLD} nothing: {_LEAVES}"
_PAUSE_S: Final = 0.2
#: For so long an operation may be on its way that was to carry an order out.
_JUST: Final = timedelta(seconds=15)
#: So long may a machine take that has booted again with its role.
_BOOT: Final = timedelta(seconds=10)
#: For so long, in seconds, a conversion is ours that is ended.
_LEASE_S: Final = 30.0


class Refused(Exception):
    """A refusal: all is as it was. Says why, and the remedy."""


@dataclass(frozen=True, slots=True)
class Came:
    """The role of a machine in the end: its ``role``, None where it has none. With ``is_done`` it is as was ordered.

    With ``is_broken`` it serves nobody, or may not: it could be made neither what was ordered nor what it was.
    """

    role: Role | None
    reason: str
    is_done: bool = False
    is_broken: bool = False


@dataclass(frozen=True, slots=True)
class Amiss:
    """The difference of a machine from what is known of it: another role that it has, or what is wrong in words."""

    role: Role | None = None
    text: str = ""
    #: Neither it nor a side knows of any role.
    is_nowhere: bool = False


def settle(
    order: Order,
    parties: Parties,
    journal: Journal,
    drive: Callable[[Conversion], Conversion],
    *,
    is_asked: bool,
    now: Callable[[], datetime],
    pause: Callable[[float], None],
) -> Came:
    """Have the machine be what ``order`` says, by ``drive``, which carries a conversion to its end.

    A conversion that is under way comes first: somebody ordered it, and whoever drove it may have been killed. Where
    nobody asked for a change (``is_asked``), what it comes to is how it stays; and so it is with one that was just
    cancelled. A machine that has the role already, and
    booted again, takes it up by itself.

    Raises:
        ConversionError: it cannot be ordered, or cannot be told how the machine is.
    """
    under_way = journal.under_way(order.node)
    if under_way is not None:
        came = _came(drive(under_way))
        if not is_asked or came.role in (None, order.to) or under_way.order.to == order.to:
            return came
    if is_asked and (cancelled := _just_cancelled(order, journal, now())) is not None:
        return _came(cancelled)
    away = other(order.to)
    try:
        if _comes_up(order.to, parties, now, pause):
            # A hold of ours that outlived its conversion; one of a person's stays.
            parties.sides[order.to].release()
            return Came(order.to, "it serves already", is_done=True)
        roles = parties.machine.roles()
    except ConversionError:
        if not parties.machine.can_image():
            raise
        # It may be one that no image has booted: where neither side knows it, it is made anew.
        roles = frozenset({away if is_asked else order.to})
    leaves = away if away in roles else order.to if order.to in roles else None
    return _came(drive(journal.order(order, leaves)))


def find_amiss(role: Role, parties: Parties) -> Amiss:
    """Compare the machine, and both sides, with its having ``role``.

    Raises:
        ConversionError: one of them cannot be asked.
    """
    roles = parties.machine.roles()
    sights = {each: side.see() for each, side in parties.sides.items()}
    away = other(role)
    if not roles and all(sight == "absent" for sight in sights.values()):
        return Amiss(is_nowhere=True)
    if roles == {away} and sights[role] == "absent":
        return Amiss(role=away, text="" if sights[away] in ("serving", "held") else "down")
    if away in roles or sights[away] != "absent":
        return Amiss(text="in two roles")
    if role not in roles or sights[role] in ("absent", "joining"):
        return Amiss(text="down")
    if sights[role] == "held" and not parties.sides[role].held_by():
        # By a conversion that is over: slurmctld has forgotten that it let go, as it does by a `kill -9`.
        return Amiss(text="held")
    return Amiss()


def leave(
    node: str,
    parties: Parties,
    journal: Journal,
    *,
    runs: bool,
    regardless: bool = False,
    hands_over: bool = False,
    patience: Callable[[], bool],
    now: Callable[[], datetime],
    pause: Callable[[float], None],
    warn: Callable[[str], None],
) -> None:
    """Take every role from the machine, and have both sides forget it, where nothing runs there.

    A conversion that is under way ends with this. What a machine ran that does not run (``runs``) is lost, and its
    owners are told. With ``regardless`` it goes with all that it runs, and without those that do not answer. With
    ``hands_over`` another controller takes over from its slurmctld, where one can; else it stays. ``patience`` says
    whether what ends by itself is still waited for; ``warn`` hears of a side that could not be asked, and need not be.

    Raises:
        Refused: jobs or pods run there, each named, and it takes new ones again; or a control plane needs it.
        ConversionError: somebody cannot be asked who has to be.
    """
    _end_conversion(node, journal, now())
    try:
        roles = parties.machine.roles() if runs else frozenset()
    except ConversionError as error:
        if not regardless:
            raise
        warn(str(error))
        roles, runs = frozenset(), False
    sides = []
    for role in ROLES:
        try:
            if parties.sides[role].see() != "absent":
                sides.append(parties.sides[role])
        except ConversionError as error:
            if role in roles and not regardless:
                raise
            warn(f"{SAID[role]} was not asked to forget {node}: {error}")

    @contextmanager
    def leniently() -> Iterator[None]:
        try:
            yield
        except ConversionError as error:
            if not regardless:
                raise
            warn(str(error))

    if runs and regardless:
        for side in sides:
            with leniently():
                _force_out(side, patience, pause)
    elif runs:
        for role in sorted(roles):
            _refuse_to_lose_control(parties.sides[role], hands_over)
        _empty(sides, patience, pause, lambda: all(_is_free(parties.sides[role]) for role in roles))
    else:
        for side in sides:
            with leniently():
                side.force_out(side.work(), _LEAVES)
    for role in sorted(roles):
        with leniently():
            parties.machine.lose(role)
    for side in sides:
        with leniently():
            side.remove_node()


def _just_cancelled(order: Order, journal: Journal, now: datetime) -> Conversion | None:
    """The same order of somebody's, that was cancelled while this operation was on its way to carry it out."""
    last = next(iter(journal.conversions(node=order.node, limit=1)), None)
    if last is None or last.ended is None or now - last.ended >= _JUST:
        return None
    same = last.order.to == order.to and last.phase == "stopped" and last.cancel_by
    return last if same else None


def _came(ended: Conversion) -> Came:
    match ended.phase:
        case "done":
            return Came(ended.order.to, ended.text, is_done=True)
        case "stopped":
            return Came(ended.leaves, ended.text)
        case _:
            return Came(None, ended.text, is_broken=True)


def _comes_up(
    role: Role, parties: Parties, now: Callable[[], datetime], pause: Callable[[float], None]
) -> bool:
    """Return whether it has that role alone, as it and both sides say, now or soon; held back by somebody or not."""
    until = now() + _BOOT
    while parties.machine.roles() == {role} and parties.sides[other(role)].see() == "absent":
        side = parties.sides[role]
        if side.see() in ("serving", "held"):
            return True
        if now() >= until:
            return False
        side.admit()
        pause(_PAUSE_S)
    return False


def _refuse_to_lose_control(side: Side, hands_over: bool) -> None:
    found = side.verdict()
    if found.hands_over and hands_over:
        return
    if found.hands_over:
        raise Refused(
            f"its slurmctld is in charge; have another take over first, by `scontrol takeover` ({found.keeps})"
        )
    if found.keeps:
        raise Refused(found.keeps)


def _is_free(side: Side) -> bool:
    """Return whether no control plane needs it; as long as one does, another is told to take over."""
    found = side.verdict()
    if found.hands_over:
        side.hand_over()
    elif found.keeps:
        raise Refused(found.keeps)
    return not found.hands_over


def _empty(
    sides: Sequence[Side],
    patience: Callable[[], bool],
    pause: Callable[[float], None],
    is_free: Callable[[], bool],
) -> None:
    """Wait until nothing runs there, and nothing new can come; or let new work come again, whatever went wrong."""
    try:
        for side in sides:
            side.hold(_HOLD)
        while work := [each for side in sides for each in side.work()]:
            if not patience():
                them = "them" if len(work) > 1 else "it"
                raise Refused(
                    f"{', '.join(map(_named, work))} would be lost; wait for the end, or end {them} first"
                )
            pause(_PAUSE_S)
        while not is_free():
            if not patience():
                raise Refused(
                    "no other slurmctld has taken over yet; look at `scontrol ping`, and do it again"
                )
            pause(_PAUSE_S)
    except BaseException:
        for side in sides:
            with suppress(ConversionError):
                side.release()
        raise


def _force_out(side: Side, patience: Callable[[], bool], pause: Callable[[float], None]) -> None:
    """Take away what runs there, and wait until it has gone, or patience has."""
    side.hold(_HOLD)
    while (work := side.work()) and patience():
        side.force_out(work, _LEAVES)
        pause(_PAUSE_S)


def _named(work: Work) -> str:
    owner = f" of {work.owner}" if work.owner else ""
    return f"{work.kind} {work.name}{owner}"


def _end_conversion(node: str, journal: Journal, now: datetime) -> None:
    """End a conversion that nobody drives any more; one that is driven goes on, and the machine stays.

    Raises:
        Refused: it is driven.
    """
    under_way = journal.under_way(node)
    if under_way is None:
        return
    driver = f"leave-{node}"
    if not journal.take_over(under_way.id, driver, now, _LEASE_S):
        raise Refused(
            f"its conversion to {SAID[under_way.order.to]} is under way; wait for its end, or `tidepool convert {node} "
            "--cancel`"
        )
    journal.write(
        replace(journal.conversion(under_way.id), phase="failed", ended=now, text=_LEAVES, driver=driver)
    )
