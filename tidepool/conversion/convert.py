"""Carries a conversion out, or goes on with it where another process was killed: one look, one step, and again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from tidepool.clients.kubernetes.objects import PoolMachine
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import Role
from tidepool.conversion.journal import Journal
from tidepool.conversion.next_step import Act, Enter, Looks, Mark, Observed, Wait, looks, next_step, other
from tidepool.conversion.ports import (
    OUR_HOLD,
    ConversionError,
    Machine,
    Refused,
    Side,
    Sight,
    TakenOver,
    Verdict,
)
from tidepool.conversion.record import ENDED, Conversion, Order, Work, given_up, observed_now, reported
from tidepool.journals.poll_interval import PollInterval
from tidepool.journals.processes import new_driver

#: A driver that has said nothing for so long, in seconds, is taken for dead; one whose process is gone is so at once.
LEASE_S: Final = 60.0
KEPT: Final = timedelta(days=90)
#: A machine is asked for its roles after it was changed, and then so seldom: who asks runs a program there, each time. Where
#: that takes long, four times as long passes before the next, up to a limit: it would take the processor from what it asks for.
_ROLES_LAST: Final = timedelta(seconds=2)
_ROLES_LAST_AT_MOST: Final = timedelta(seconds=20)
_PAUSE_PER_ANSWER: Final = 4
#: Between two looks.
_SHORTEST_S: Final = 0.01
#: While jobs and pods end, which may take hours; and while the machine changes.
_LONGEST_S, _LONGEST_CHANGE_S = 1.0, 0.25


@dataclass(frozen=True, slots=True)
class Parties:
    """The parties of a conversion: the machine, and Slurm and Kubernetes as they see it.

    ``show`` tells people who look at Kubernetes what it came to; None: that it is of no pool any more. It fails silently.
    """

    machine: Machine
    sides: Mapping[Role, Side]
    show: Callable[[PoolMachine | None], None] = lambda _: None


def convert(
    conversion: Conversion,
    parties: Parties,
    journal: Journal,
    *,
    now: Callable[[], datetime],
    wait: Callable[[float], None],
    told: Callable[[Conversion], None],
) -> Conversion:
    """Drive ``conversion`` to its end, and give it as it ended. Where another process drives it, that one is waited for.

    ``journal`` is where each phase is written down before it begins. ``wait`` sleeps for so many seconds; what it raises ends
    the driving: whoever comes next goes on. ``told`` hears of each change, for progress.

    Raises:
        ConversionError: the journal cannot be used; what was begun is gone on with by whoever drives it next.
    """
    driver = new_driver()
    pace = PollInterval(now, wait, _SHORTEST_S, _LONGEST_CHANGE_S)
    try:
        while conversion.is_under_way:
            if journal.take_over(conversion.id, driver, now(), LEASE_S):
                conversion = journal.conversion(conversion.id)
                with contextlib.suppress(TakenOver):
                    conversion = _Drive(conversion, driver, parties, journal, pace, told).to_the_end()
                    with contextlib.suppress(ConversionError):
                        journal.prune(now() - KEPT)
                    break
            pace.wait()
            if (seen := journal.conversion(conversion.id)) != conversion:
                conversion = seen
                told(conversion)
    finally:
        with contextlib.suppress(ConversionError):
            journal.let_go(conversion.id, driver)
    return conversion


@dataclass
class _Drive:
    """One process's driving of one conversion. What it knows besides the journal may be lost at any moment."""

    conversion: Conversion
    driver: str
    parties: Parties
    journal: Journal
    pace: PollInterval
    told: Callable[[Conversion], None]
    _until: datetime | None = None
    _prepared: bool = False
    _failing: dict[Role | Literal["machine"], str] = field(default_factory=dict)
    _refused: str = ""
    _look: Look | None = None
    #: The roles that the machine said it has, and until when that is known; forgotten when it is changed.
    _roles: tuple[frozenset[Role], datetime] | None = None
    #: How long that is, by how long the machine took to answer.
    _roles_last: timedelta = _ROLES_LAST

    def to_the_end(self) -> Conversion:
        """Look, do, write; until it has ended.

        Raises:
            TakenOver: another process drives it by now.
        """
        self.pace.progress()
        if self.conversion.is_under_way:
            first = {} if "asked/driven" in self.conversion.began else {"asked/driven": self.pace.now()}
            self._write(began=FrozenDict({**self._marked("driver/since"), **first}))
        while self.conversion.is_under_way:
            self._stay()
            self._step()
        return self.conversion

    def _stay(self) -> None:
        """Be the one that drives it for some time more, and hear of a cancel, and of force."""
        now = self.pace.now()
        if self._until is None or now > self._until - timedelta(seconds=LEASE_S / 2):
            if not self.journal.take_over(self.conversion.id, self.driver, now, LEASE_S):
                raise TakenOver(f"conversion {self.conversion.id} is driven by another process")
            self._until = now + timedelta(seconds=LEASE_S)
        seen = self.journal.conversion(self.conversion.id)
        if seen.driver != self.driver:
            raise TakenOver(f"conversion {self.conversion.id} is driven by another process")
        self.conversion = seen

    def _step(self) -> None:
        if self._look is None:
            self._look = Look(self.parties, self.conversion.order, self._machine_roles)
        seen = replace(
            self._look.at(looks(self.conversion), with_holders=self.conversion.phase == "asked"),
            prepared=self._prepared,
            failing=FrozenDict(self._failing),
        )
        if self._refused:
            seen = replace(seen, refused=self._refused)
        if self._look.worked is not None:
            # Told to the journal at the latest with the next phase, which is before it is taken away.
            self._write_if_changed(work=observed_now(self.conversion, self._look.worked))
        step = next_step(self.conversion, seen, self.pace.now())
        match step:
            case Enter(phase, text):
                now = self.pace.now()
                there = self._look.worked or ()
                self._write(
                    phase=phase,
                    work=given_up(self.conversion, there) if phase == "restoring" else self.conversion.work,
                    began=self._marked(phase),
                    text=text,
                    back_because=text if phase in ("restoring", "stopped") else self.conversion.back_because,
                    ended=now if phase in ENDED else None,
                )
                self._failing.clear()
                self._prepared, self._refused = False, ""
                self.pace.progress()
                return  # what was just seen still holds: nothing was done but to write
            case Mark(mark):
                self._write(began=self._marked(f"{self.conversion.phase}/{mark}"))
                return
            case Wait(text):
                self._write_if_changed(text=text)
                self._pause()
            case Act():
                self._act(step)
        self._look = None

    def _act(self, act: Act) -> None:
        whom: Role | Literal["machine"] = act.role
        if act.verb in ("take", "lose", "image"):
            whom, self._roles = "machine", None
        try:
            self._do(act)
        except ConversionError as error:
            self._failing[whom] = str(error)
            self._refused = str(error) if isinstance(error, Refused) else ""
            self._write_if_changed(text=str(error))
            self._pause()
            return
        self._failing.pop(whom, None)
        mark = f"{self.conversion.phase}/{act.mark}"
        if act.mark and mark not in self.conversion.began:
            self._write(began=self._marked(mark), text="")
            self.pace.progress()
        if act.waits:
            self._write_if_changed(text=act.text)
            self._pause()

    def _do(self, act: Act) -> None:
        side, order = self.parties.sides[act.role], self.conversion.order
        why = " ".join(f"{order.by}: {order.reason}".split())
        match act.verb:
            case "hold":
                side.hold(f"{OUR_HOLD} {order.to} ({why})")
            case "release":
                side.release()
            case "ask_to_leave":
                side.ask_to_leave(self.conversion.work)
            case "force_out":
                reason = f"the machine {order.node} moves to {order.to} by force ({why})"
                done = side.force_out(self.conversion.work, reason)
                self._write_if_changed(work=reported(self.conversion, done))
            case "prepare":
                side.prepare()
                self._prepared = True
            case "admit":
                side.admit()
            case "remove_node":
                side.remove_node()
            case "take":
                # What it was prepared with may be used up, whatever becomes of this.
                self._prepared = False
                self._know_roles(self.parties.machine.take, act.role)
            case "lose":
                self._know_roles(self.parties.machine.lose, act.role)
            case "image":
                self.parties.machine.image(act.role)
            case "hand_over":
                side.hand_over()

    def _machine_roles(self) -> frozenset[Role]:
        """Return the roles that the machine has, as it says now or said not long ago."""
        asked = self.pace.now()
        if self._roles is None or asked > self._roles[1]:
            roles = self.parties.machine.roles()
            answered = self.pace.now()
            pause = max(_ROLES_LAST, _PAUSE_PER_ANSWER * (answered - asked))
            self._roles_last = min(pause, _ROLES_LAST_AT_MOST)
            self._roles = roles, answered + self._roles_last
        return self._roles[0]

    def _know_roles(self, change: Callable[[Role], frozenset[Role]], role: Role) -> None:
        """Change the machine, which tells its roles when it has done so: it need not be asked at once."""
        self._roles = change(role), self.pace.now() + self._roles_last

    def _pause(self) -> None:
        self.pace.wait(_LONGEST_S if self.conversion.phase == "emptying" else _LONGEST_CHANGE_S)

    def _marked(self, name: str) -> Mapping[str, datetime]:
        return FrozenDict({**self.conversion.began, name: self.pace.now()})

    def _write_if_changed(self, *, text: str | None = None, work: tuple[Work, ...] | None = None) -> None:
        text = self.conversion.text if text is None else text
        work = self.conversion.work if work is None else work
        if (text, work) != (self.conversion.text, self.conversion.work):
            self._write(text=text, work=work)

    def _write(self, **changes: object) -> None:
        self.conversion = self.journal.write(replace(self.conversion, **changes))  # type: ignore[arg-type]
        self.told(self.conversion)


class Look:
    """The machine and both sides, each asked at most once. ``ask_roles`` gives those that the machine has."""

    def __init__(self, parties: Parties, order: Order, ask_roles: Callable[[], frozenset[Role]]) -> None:
        self._machine, self._sides, self._away = parties.machine, parties.sides, other(order.to)
        self._ask_roles = ask_roles
        self._roles: frozenset[Role] | None = None
        self._sights: dict[Role, Sight] = {}
        self._held_by: dict[Role, str] = {}
        self._work: dict[Role, tuple[Work, ...]] = {}
        self._control: Verdict | None = None
        self._imaged: frozenset[Role] | None = None
        #: What runs on the side that was looked at last; None where that was not looked at.
        self.worked: tuple[Work, ...] | None = None

    def at(self, wanted: Looks, *, with_holders: bool) -> Observed:
        """Observe what is wanted and not known yet; ``with_holders``: also who holds one back that is not up."""
        unknown: dict[Role | Literal["machine"], str] = {}
        refused = ""
        if wanted.roles and self._roles is None:
            try:
                self._roles = self._ask_roles()
            except ConversionError as error:
                unknown["machine"] = str(error)
        if wanted.imaged and self._imaged is None:
            try:
                self._imaged = self._machine.imaged()
            except ConversionError as error:
                unknown["machine"] = str(error)
        for role in wanted.sights:
            try:
                self._see(role, with_holders)
            except Refused as error:
                unknown[role] = refused = str(error)
            except ConversionError as error:
                unknown[role] = str(error)
        self.worked = None
        if wanted.work is not None and wanted.work not in unknown:
            try:
                self.worked = self._works(wanted.work)
            except ConversionError as error:
                unknown[wanted.work] = str(error)
                self._sights.pop(wanted.work, None)
        if wanted.control and self._control is None and self._away not in unknown:
            try:
                self._control = self._sides[self._away].verdict()
            except ConversionError as error:
                unknown[self._away] = str(error)
        return Observed(
            roles=self._roles or frozenset(),
            imaged=self._imaged,
            can_image=self._imaged is not None and self._machine.can_image(),
            sights=FrozenDict({role: sight for role, sight in self._sights.items() if role not in unknown}),
            held_by=FrozenDict(self._held_by),
            work=self.worked or (),
            control=self._control or Verdict(),
            unknown=FrozenDict(unknown),
            refused=refused,
        )

    def _see(self, role: Role, with_holders: bool) -> None:
        if role in self._sights:
            return
        side = self._sides[role]
        sight = side.see()
        if sight == "held" or (with_holders and sight == "joining"):
            self._held_by[role] = side.held_by()
        self._sights[role] = sight

    def _works(self, role: Role) -> tuple[Work, ...]:
        """After its sight, so that nothing new can have come where that was ``held``."""
        if role not in self._work:
            self._work[role] = () if self._sights[role] == "absent" else self._sides[role].work()
        return self._work[role]
