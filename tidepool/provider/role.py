"""tidepool:pool:Role."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from tidepool.cluster.desired_state import is_forced
from tidepool.cluster.roles import ROLES
from tidepool.conversion.convert import convert
from tidepool.conversion.journal import Journal
from tidepool.conversion.next_step import SAID
from tidepool.conversion.ports import ConversionError
from tidepool.conversion.processes import is_driven
from tidepool.conversion.record import Conversion, Order
from tidepool.infrastructures.connection import transport
from tidepool.provider.role_change import Refused, leave, seen_amiss, settle
from tidepool.provider.role_parties import Around, around_of, journal_path
from tidepool.resources.errors import Refusal, Unfinished
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.pools import Role as Resource
from tidepool.resources.pools import RoleModel
from tidepool.resources.reading import Change, Mistake
from tidepool.resources.values import Inputs, Plain

_STATE: Final = "state"
#: For so long, in seconds, what is ending may take on a machine that leaves its pool.
_PATIENCE_S: Final = 10.0


class _CutOff(Exception):
    """A person has cancelled the operation; what the journal has goes on with the next."""


class RoleKind(Kind[RoleModel]):
    """The role of a machine of a pool. All that is done to it goes by the journal of conversions."""

    resource = Resource

    def __init__(self, home: Home, around: Around | None = None) -> None:
        self._home = home
        self._around = around or around_of(home)

    def mistakes(self, wanted: RoleModel) -> Iterable[Mistake]:
        for key, connection in (("controller", wanted.controller), ("machine", wanted.machine)):
            try:
                transport(connection, self._home.data)
            except ValueError as error:
                yield Mistake(key, str(error))
        if missing := [role for role in ROLES if role not in wanted.boots]:
            yield Mistake("boots", f"there is none for {' and '.join(missing)}; name a Boot for each role")

    def diff(self, old: Inputs, new: Inputs) -> tuple[Change, ...]:
        found = {change.key: change for change in super().diff(old, new)}
        if "podSubnet" in found and old.get("role") == "kubernetes":
            # Its pods have their addresses from it.
            found["podSubnet"] = Change("podSubnet", replaces=True)
        if "role" not in found and self._is_abandoned(new):
            # Somebody ordered it, and was cut off: whoever comes next goes on.
            found["role"] = Change("role")
        return tuple(found.values())

    def create(self, wanted: RoleModel, task: Task) -> Made:
        return Made(wanted.node, self._settle(wanted, None, task))

    def update(self, id: str, old: RoleModel, wanted: RoleModel, task: Task) -> Mapping[str, Plain]:
        return self._settle(wanted, old, task)

    def look(self, id: str, state: RoleModel) -> Mapping[str, Plain] | None:
        if self._under_way(state.stack, state.node) is not None:
            return AS_KNOWN  # it is on its way; `diff` has whoever comes next go on with it
        if not self._around.runs(state):
            return {_STATE: "down"}
        try:
            with self._around.parties(state) as parties:
                amiss = seen_amiss(state.role, parties)
        except ConversionError:
            return AS_KNOWN  # what cannot be seen is as it was
        if amiss.is_nowhere:
            return None
        found: dict[str, Plain] = {"role": amiss.role} if amiss.role else {}
        return {**found, _STATE: amiss.text} if amiss.text else found

    def delete(self, id: str, state: RoleModel, task: Task) -> None:
        until = self._around.now() + timedelta(seconds=_PATIENCE_S)
        try:
            with self._around.parties(state) as parties, self._journal(state.stack) as journal:
                leave(
                    state.node,
                    parties,
                    journal,
                    runs=self._around.runs(state),
                    regardless=is_forced(self._home.environment),
                    hands_over=bool(state.slurmctld),
                    patience=lambda: self._around.now() < until,
                    now=self._around.now,
                    pause=self._waiting(task),
                    warn=task.warn,
                )
        except _CutOff:
            raise Refusal(
                f"machine {state.node} did not leave pool {state.pool}: the operation was cancelled"
            ) from None
        except (ConversionError, Refused) as error:
            raise Refusal(f"machine {state.node} cannot leave pool {state.pool}: {error}") from error

    def _settle(self, wanted: RoleModel, old: RoleModel | None, task: Task) -> Mapping[str, Plain]:
        """Have the machine be what is wanted, or what somebody ordered; gives what it is.

        Raises:
            Refusal: it stayed what it was, with the reason.
            Unfinished: it is nothing that serves; the next `up` mends it.
        """
        is_asked = old is not None and old.role != wanted.role
        order = Order(
            node=wanted.node,
            pool=wanted.pool,
            to=wanted.role,
            at=self._around.now(),
            by="up",
            reason="the stack's program says so" if is_asked else "the stack has it so",
            deadline_s=wanted.deadline_s,
            at_deadline=wanted.at_deadline,
        )
        try:
            with self._around.parties(wanted) as parties, self._journal(wanted.stack) as journal:

                def drive(conversion: Conversion) -> Conversion:
                    return convert(
                        conversion,
                        parties,
                        journal,
                        now=self._around.now,
                        wait=self._waiting(task),
                        told=lambda now: task.status(_told(now)),
                    )

                came = settle(
                    order,
                    parties,
                    journal,
                    drive,
                    is_asked=is_asked,
                    now=self._around.now,
                    pause=self._waiting(task),
                )
                if wanted.slurmctld and came.role == "slurm":
                    # Where another took over from it, as by a `Configuration` that has it start anew.
                    parties.machine.take("slurm")
        except _CutOff:
            raise Refusal(
                f"machine {wanted.node}: the operation was cancelled; a conversion that was begun goes on with the next "
                f"`tidepool up`, or ends with `tidepool convert {wanted.node} --cancel`"
            ) from None
        except ConversionError as error:
            raise Refusal(f"machine {wanted.node}: {error}") from error
        if came.is_broken:
            was = old.role if old is not None else wanted.role
            reason = f"machine {wanted.node} serves neither Slurm nor Kubernetes: {came.reason}"
            raise Unfinished(wanted.node, reason, {"role": was, _STATE: "none"}, cause="boot")
        if came.role is None or (came.role != wanted.role and not came.is_done):
            raise Refusal(f"machine {wanted.node} was not given to {SAID[wanted.role]}: {came.reason}")
        if came.role != wanted.role:
            task.info(f"{wanted.node} serves {SAID[came.role]} now, as was ordered")
        return {"role": came.role}

    def _waiting(self, task: Task) -> Callable[[float], None]:
        """Sleeps for so many seconds, unless the operation was cancelled."""

        def wait(seconds: float) -> None:
            if task.cancelled():
                raise _CutOff
            self._around.wait(seconds)

        return wait

    def _is_abandoned(self, inputs: Inputs) -> bool:
        """Return whether a conversion is under way that nobody drives. One that waits for its work holds up nobody else."""
        machine, node = inputs.get("machine"), inputs.get("node")
        stack = machine.get("stack") if isinstance(machine, dict) else None
        if not isinstance(stack, str) or not isinstance(node, str):
            return False
        going = self._under_way(stack, node)
        return going is not None and not is_driven(going, self._around.now())

    def _under_way(self, stack: str, node: str) -> Conversion | None:
        if not self._journal_path(stack).exists():
            return None
        try:
            with self._journal(stack) as journal:
                return journal.under_way(node)
        except ConversionError:
            return None  # who changes something will be told

    @contextmanager
    def _journal(self, stack: str) -> Iterator[Journal]:
        """Opened for each operation: a provider may outlive the data folder of a stack."""
        journal = self._around.journal(self._journal_path(stack))
        try:
            yield journal
        finally:
            journal.close()

    def _journal_path(self, stack: str) -> Path:
        return journal_path(self._home.data, stack)


def _told(conversion: Conversion) -> str:
    """Its phase, and what holds it up."""
    said = f"to {SAID[conversion.order.to]}: {conversion.phase}"
    return f"{said}, {conversion.text}" if conversion.text else said
