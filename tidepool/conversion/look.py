"""Observations between two steps of a conversion: each is asked for once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import Role
from tidepool.conversion.control_nodes import Verdict, verdict
from tidepool.conversion.ports import Control, ConversionError, Machine, Refused, Side, Sight
from tidepool.conversion.record import Order, Work
from tidepool.conversion.step import Looks, Seen, other


class Look:
    """The machine and both sides, each asked at most once.

    Args:
        machine: which one.
        sides: how both see it.
        control: the control planes that it is a part of.
        order: what is to become of it.
        roles: those that it has, where that is known already.
    """

    def __init__(
        self,
        machine: Machine,
        sides: Mapping[Role, Side],
        control: Control | None,
        order: Order,
        roles: frozenset[Role] | None,
    ) -> None:
        self._machine, self._sides, self._controls = machine, sides, control
        self._node, self._away = order.node, other(order.to)
        self.roles = roles
        self._sights: dict[Role, Sight] = {}
        self._held_by: dict[Role, str] = {}
        self._work: dict[Role, tuple[Work, ...]] = {}
        self._control: Verdict | None = None
        #: What runs on the side that was looked at last; None where that was not looked at.
        self.worked: tuple[Work, ...] | None = None

    def at(self, wanted: Looks, *, with_holders: bool) -> Seen:
        """Observe what is wanted and not known yet; ``with_holders``: also who holds one back that is not up."""
        unknown: dict[Role | Literal["machine"], str] = {}
        refused = ""
        if wanted.roles and self.roles is None:
            try:
                self.roles = self._machine.roles()
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
                self._control = self._verdict()
            except ConversionError as error:
                unknown[self._away] = str(error)
        return Seen(
            roles=self.roles or frozenset(),
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

    def _verdict(self) -> Verdict:
        if self._controls is None:
            return Verdict()
        return verdict(self._node, self._away, self._controls.standing(self._away))
