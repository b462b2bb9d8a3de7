"""A machine and two sides in memory, with a clock of their own; calls that fail, and drivers that are killed at any of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from tidepool.cluster.roles import ROLES, Role
from tidepool.conversion.convert import Parties, convert
from tidepool.conversion.journal import Journal
from tidepool.conversion.ports import ConversionError, Sight, Verdict
from tidepool.conversion.record import Conversion, Order, Work

NODE = "shared-1"
START = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Killed(BaseException):
    """The driver's process is gone; nothing of it runs any more."""


@dataclass
class Item:
    """A job or a pod, until when it runs, and whether its owner was told that it is taken away."""

    name: str
    until: datetime | None
    told: bool = False
    #: A budget, or the like: it does not go when it is asked to.
    stays: bool = False


class World:
    """What happens at each call of a port, in order: `at` is called before and after the effect of each."""

    def __init__(self, folder: Path) -> None:
        self.time = START
        #: How many times as long as it should each wait lasts, where minutes are to pass quickly.
        self.haste = 1
        self.calls: list[str] = []
        self.at: Callable[[str], None] = lambda _: None
        self.killed = False
        self.dead: set[str] = set()
        self.machine = FakeMachine(self)
        self.sides: dict[Role, FakeSide] = {role: FakeSide(self, role) for role in ROLES}
        self.journal = self.opened(folder)
        self.folder = folder
        #: Work that went without a word, which must never be.
        self.lost: list[str] = []

    def opened(self, folder: Path) -> Journal:
        return Journal(folder / "conversions.db", now=self.now, dead=self.dead.__contains__, power_safe=False)

    def now(self) -> datetime:
        self.time += timedelta(milliseconds=1)
        return self.time

    def wait(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds * self.haste)
        self.happen("wait")

    def happen(self, call: str) -> None:
        if self.killed:
            raise Killed
        self.calls.append(call)
        self.time += timedelta(milliseconds=5)
        self.at(call)
        if self.killed:
            raise Killed

    def serve(self, role: Role) -> None:
        """It is a machine of `role`, as if it had always been."""
        self.machine.running.add(role)
        self.machine.credentials.add(role)
        self.sides[role].known_since = START

    def serve_by_image(self, role: Role) -> None:
        """It is one whose roles have an image each."""
        self.serve(role)
        self.machine.disk = role

    def cut_power(self) -> None:
        """The power of a machine goes whose root is in memory: what ran there died of that, and nothing is left."""
        for role in self.machine.roles_now():
            for item in self.sides[role].items:
                item.told = True
        for kept in (self.machine.running, self.machine.credentials, self.machine.left):
            kept.clear()
        self.machine.up, self.machine.is_blank = None, True

    def order(self, to: Role, **more: Any) -> Conversion:
        leaves: Role | None = None
        for role in sorted(self.machine.roles_now(), key=lambda role: role == to):
            leaves = leaves or role
        order = Order(NODE, "shared", to, self.time, more.pop("by", "person"), "a test", **more)
        return self.journal.order(order, leaves)

    def drive(
        self, conversion: Conversion, told: Callable[[Conversion], None] = lambda _: None
    ) -> Conversion:
        parties = Parties(self.machine, self.sides)
        return convert(
            conversion,
            parties,
            cast("Journal", _Mortal(self)),
            now=self.now,
            wait=self.wait,
            told=told,
        )

    def drive_killed(self, conversion: Conversion) -> bool:
        """Drive it until it ends, or the driver is killed; whether it was."""
        try:
            self.drive(conversion)
        except Killed:
            self.killed = False
            self.dead.add(self.journal.conversion(conversion.id).driver)
            return True
        return False

    def check(self) -> None:
        """What must hold at every moment."""
        assert len(self.machine.running) <= 1, f"in two roles: {self.machine.running}"
        serving = [role for role in ROLES if self.sides[role].sight() == "serving"]
        assert len(serving) <= 1, f"both sides give it work: {serving}"
        if self.machine.disk is not None:
            assert self.machine.running <= {self.machine.disk}, "a role on the image of the other"
        assert self.lost == []


class _Mortal:
    """The journal, as a process sees it that may be killed at each call, before it and after."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._world.journal, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self._world.happen(f"journal.{name}")
            answer = method(*arguments, **named)
            self._world.happen(f"journal.{name}!")
            return answer

        return call


class FakeMachine:
    def __init__(self, world: World) -> None:
        self._world = world
        self.running: set[Role] = set()
        self.credentials: set[Role] = set()
        self.left: set[Role] = set()
        self.faults: dict[str, str] = {}
        #: Whose image the disk has; None: one for both. How long each takes to boot, in seconds; None: it never does.
        self.disk: Role | None = None
        self.boots_s: dict[Role, float | None] = {"slurm": 40.0, "kubernetes": 45.0}
        #: When it answers; None: it is off, or will not.
        self.up: datetime | None = START
        #: It is off, and its root was in memory.
        self.is_blank = False
        #: It can be made anew, from the one image that it has.
        self.boots_anew = False

    def can_image(self) -> bool:
        return self.disk is not None or self.is_blank or self.boots_anew

    def imaged(self) -> frozenset[Role]:
        self._call("imaged", answers=False)
        if self.is_blank:
            return frozenset()
        return frozenset(ROLES if self.disk is None else (self.disk,))

    def image(self, role: Role) -> None:
        self._call(f"image {role}", answers=False)
        self.up = None
        for each in [*self.running]:
            self._world.sides[each].stopped()
        self.running.clear()
        self._world.happen(f"machine.image {role} off")
        self.credentials.clear()
        self.left.clear()
        self.disk, self.is_blank = role if self.disk else None, False
        self._world.happen(f"machine.image {role} half")
        boots_s = self.boots_s[role]
        self.up = None if boots_s is None else self._world.time + timedelta(seconds=boots_s)
        self._world.happen(f"machine.image {role}!")

    def roles_now(self) -> frozenset[Role]:
        return frozenset(self.running | self.credentials)

    def roles(self) -> frozenset[Role]:
        self._call("roles", answers=not self.is_blank)
        return self.roles_now()

    def take(self, role: Role) -> frozenset[Role]:
        self._call(f"take {role}")
        self.credentials.add(role)
        self._world.happen(f"machine.take {role} half")
        begins = role not in self.running
        self.running.add(role)
        self.left.add(role)
        if begins:  # services that run already tell nobody again
            self._world.sides[role].taken(self._world.time)
        self._world.happen(f"machine.take {role}!")
        return self.roles_now()

    def lose(self, role: Role) -> frozenset[Role]:
        self._call(f"lose {role}", answers=not self.is_blank)
        self._world.sides[role].stopped()
        self.running.discard(role)
        self._world.happen(f"machine.lose {role} half")
        self.credentials.discard(role)
        self._world.happen(f"machine.lose {role} nearly")
        self.left.discard(role)
        self._world.happen(f"machine.lose {role}!")
        return self.roles_now()

    def left_behind(self, role: Role) -> tuple[str, ...]:
        return (f"/var/lib/{role}",) if role in self.left else ()

    def _call(self, what: str, *, answers: bool = True) -> None:
        self._world.happen(f"machine.{what}")
        if answers and (self.up is None or self.up > self._world.time):
            raise ConversionError("it boots")
        if fault := self.faults.get(what.split(maxsplit=1)[0]) or self.faults.get(what):
            raise ConversionError(fault)


class FakeSide:
    """One side: a node that joins some time after its services start, work on it, and a hold that is ours or a person's."""

    def __init__(self, world: World, role: Role) -> None:
        self._world = world
        self.role: Role = role
        self.known_since: datetime | None = None
        self.hold_of = ""
        self.items: list[Item] = []
        self.gone: list[Item] = []
        self.faults: dict[str, str] = {}
        self.joins_after_s: float | None = 0.3
        self.is_prepared = False
        #: What is left besides the node: tokens, requests.
        self.left = False
        #: Of its control plane.
        self.judges: Callable[[], Verdict] = Verdict
        self.hands_over: Callable[[], None] = lambda: None
        self.handed = 0

    def sight(self) -> Sight:
        if self.known_since is None or self.known_since > self._world.time:
            return "absent"
        if self.role not in self._world.machine.running:
            return "joining"
        return "held" if self.hold_of else "serving"

    def taken(self, at: datetime) -> None:
        if self.known_since is None and self.is_prepared and self.joins_after_s is not None:
            self.known_since = at + timedelta(seconds=self.joins_after_s)

    def stopped(self) -> None:
        """Its services end, and with them what runs under them."""
        if self.sight() == "absent":
            self.known_since = None
        for item in self._there():
            if not item.told:
                self._world.lost.append(f"{item.name}, which ran when its services were stopped")

    def see(self) -> Sight:
        self._call("see")
        return self.sight()

    def held_by(self) -> str:
        self._call("held_by")
        return self.hold_of if self.hold_of not in ("", "us") else ""

    def hold(self, reason: str) -> None:
        self._call("hold")
        if self.sight() != "absent":
            self.hold_of = self.hold_of or "us"
        self._world.happen(f"{self.role}.hold!")

    def release(self) -> None:
        self._call("release")
        if self.hold_of == "us":
            self.hold_of = ""
        self._world.happen(f"{self.role}.release!")

    def work(self) -> tuple[Work, ...]:
        self._call("work")
        return tuple(
            Work("job", item.name, "anna", text="runs on" if item.stays else "") for item in self._there()
        )

    def ask_to_leave(self, work: Collection[Work]) -> None:
        self._call("ask_to_leave")

    def force_out(self, work: Collection[Work], reason: str) -> tuple[Work, ...]:
        self._call("force_out")
        done = []
        named = {each.name for each in work}
        for item in self._there():
            if item.name not in named:
                continue
            item.told = True
            self._world.happen(f"{self.role}.force_out told {item.name}")
            item.until = self._world.time
            done.append(Work("job", item.name, "anna", "requeued", "told"))
            self._world.happen(f"{self.role}.force_out took {item.name}")
        return tuple(done)

    def prepare(self) -> None:
        self._call("prepare")
        self.is_prepared = self.left = True
        self._world.happen(f"{self.role}.prepare!")

    def admit(self) -> None:
        self._call("admit")
        if self.hold_of == "us":
            self.hold_of = ""
        self._world.happen(f"{self.role}.admit!")

    def remove_node(self) -> None:
        self._call("forget")
        for item in self._there():
            if not item.told:
                self._world.lost.append(f"{item.name}, which was forgotten")
        self.known_since, self.hold_of, self.left, self.is_prepared = None, "", False, False
        self._world.happen(f"{self.role}.forget!")

    def verdict(self) -> Verdict:
        return self.judges()

    def hand_over(self) -> None:
        self.handed += 1
        self.hands_over()

    def begin(self, name: str, seconds: float | None = None, *, stays: bool = False) -> Item:
        until = None if seconds is None else self._world.time + timedelta(seconds=seconds)
        self.items.append(Item(name, until, stays=stays))
        return self.items[-1]

    def _there(self) -> list[Item]:
        return [item for item in self.items if item.until is None or item.until > self._world.time]

    def _call(self, what: str) -> None:
        self._world.happen(f"{self.role}.{what}")
        if fault := self.faults.get(what) or self.faults.get("*"):
            raise ConversionError(fault)
