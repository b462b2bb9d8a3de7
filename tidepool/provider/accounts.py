"""tidepool:slurm:Qos, Account and Association: what slurmdbd knows of who may use how much."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from tidepool.clients.slurm.accounting import Accounting, Quality
from tidepool.clients.slurm.accounting import Association as Entry
from tidepool.clients.slurm.contract import ControllerDown, DatabaseDown, Refused, SlurmError
from tidepool.clients.transport import TimedOut, Unreachable
from tidepool.infrastructures.connection import transport
from tidepool.provider.machines import connection_mistakes
from tidepool.provider.together import Together
from tidepool.resources.accounts import Account, AccountModel, Association, AssociationModel, Qos, QosModel
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Refusal, Task
from tidepool.resources.model import Model
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain

M = TypeVar("M", bound=Model)

Key = tuple[str, str]
Limits = Mapping[str, str]


class _Database:
    """The accounting of one cluster by one connection: reads and writes of many resources at a time."""

    def __init__(self, accounting: Accounting) -> None:
        self.accounting = accounting
        self.write: Together[Entry, None] = Together(self._write)
        self.read: Together[None, Mapping[Key, Entry]] = Together(self._read)

    def _read(self, asking: Sequence[None]) -> Sequence[Mapping[Key, Entry]]:
        return [self.accounting.associations()] * len(asking)

    def _write(self, entries: Sequence[Entry]) -> Sequence[Exception | None]:
        # Accounts before their users; a parent was written when whoever is below it is asked for.
        ordered = sorted(entries, key=lambda each: (each.user != "", each.key))
        there = self.accounting.associations()
        try:
            self.accounting.set_associations(ordered, there)
        except Refused:
            # Those behind one that cannot be are not written: each by itself, so that they are, and that one is told of.
            return [self._write_one(each, there) for each in entries]
        return [None] * len(entries)

    def _write_one(self, entry: Entry, there: Mapping[Key, Entry]) -> Exception | None:
        try:
            self.accounting.set_associations([entry], there)
        except SlurmError as error:
            return error
        return None


_databases: Final[dict[str, _Database]] = {}
_databases_lock: Final = threading.Lock()


def _database(home: Home, connection: Mapping[str, Any], cluster: str) -> _Database:
    key = json.dumps([str(home.data), dict(connection), cluster], sort_keys=True)
    with _databases_lock:
        if key not in _databases:
            _databases[key] = _Database(Accounting(transport(connection, home.data), cluster))
        return _databases[key]


class _AssociationKind(Kind[M]):
    """What accounts and users in them have in common."""

    timeout_s = 120.0

    def _entry(self, wanted: M) -> Entry:
        raise NotImplementedError

    def create(self, wanted: M, task: Task) -> Made:
        entry = self._entry(wanted)
        self._write(wanted, entry)
        return Made("/".join(filter(None, (wanted.cluster, *entry.key))))  # type: ignore[attr-defined]

    def update(self, id: str, old: M, wanted: M, task: Task) -> Mapping[str, Plain]:
        self._write(wanted, self._entry(wanted))
        return {}

    def look(self, id: str, state: M) -> Mapping[str, Plain] | None:
        entry = self._entry(state)
        try:
            there = self._database(state).read(None).get(entry.key)
        except (ControllerDown, DatabaseDown, TimedOut, Unreachable):
            return AS_KNOWN  # what cannot be seen is not gone
        if there is None:
            return None
        return self._differences(entry, there)

    def _differences(self, known: Entry, there: Entry) -> Mapping[str, Plain]:
        changed: dict[str, Plain] = {}
        if there.shares != known.shares:
            changed["shares"] = there.shares
        if dict(there.limits) != dict(known.limits):
            changed["limits"] = dict(there.limits)
        return changed

    def _write(self, wanted: M, entry: Entry) -> None:
        try:
            self._database(wanted).write(entry)
        except Refused as error:
            raise Refusal(
                f"slurmdbd does not take {'/'.join(filter(None, entry.key))}: {error.words}"
            ) from error

    def _database(self, wanted: M) -> _Database:
        return _database(self._home, wanted.controller, wanted.cluster)  # type: ignore[attr-defined]

    def _delete(self, database: _Database, entry: Entry) -> None:
        try:
            database.accounting.delete_association(*entry.key)
        except Refused as error:
            raise Refusal(
                f"{'/'.join(filter(None, entry.key))} cannot go: {error.words}; wait for its jobs, or cancel them with "
                "`scancel`"
            ) from error


class AssociationKind(_AssociationKind[AssociationModel]):
    """A user in an account."""

    resource = Association

    def mistakes(self, wanted: AssociationModel) -> Iterable[Mistake]:
        yield from connection_mistakes({"controller": wanted.controller}, self._home.data)

    def _entry(self, wanted: AssociationModel) -> Entry:
        return Entry(
            wanted.account,
            wanted.user,
            shares=wanted.shares,
            limits=wanted.limits,
            is_default=wanted.default,
        )

    def _differences(self, known: Entry, there: Entry) -> Mapping[str, Plain]:
        changed = dict(super()._differences(known, there))
        # Slurm has a default for everybody: one that nobody asked for is no difference.
        if known.is_default and not there.is_default:
            changed["default"] = False
        return changed

    def delete(self, id: str, state: AssociationModel, task: Task) -> None:
        self._delete(self._database(state), self._entry(state))


class AccountKind(_AssociationKind[AccountModel]):
    """An account."""

    resource = Account

    def mistakes(self, wanted: AccountModel) -> Iterable[Mistake]:
        yield from connection_mistakes({"controller": wanted.controller}, self._home.data)

    def _entry(self, wanted: AccountModel) -> Entry:
        return Entry(
            wanted.account,
            parent=wanted.parent,
            shares=wanted.shares,
            limits=wanted.limits,
            qos=tuple(wanted.qos),
            default_qos=wanted.default_qos,
            description=wanted.description,
        )

    def _differences(self, known: Entry, there: Entry) -> Mapping[str, Plain]:
        changed = dict(super()._differences(known, there))
        if there.parent != (known.parent or "root"):
            changed["parent"] = there.parent
        if set(there.qos) != set(known.qos):
            changed["qos"] = list(there.qos)
        if there.default_qos != known.default_qos:
            changed["defaultQos"] = there.default_qos
        return changed

    def delete(self, id: str, state: AccountModel, task: Task) -> None:
        database = self._database(state)
        below = [
            each
            for each in database.read(None).values()
            if each.parent == state.account or (each.account == state.account and each.user)
        ]
        if below:
            names = ", ".join(each.user or each.account for each in below[:10])
            more = f" and {len(below) - 10} more" if len(below) > 10 else ""
            raise Refusal(
                f"the account {state.account} cannot go: below it are {names}{more}, which Slurm would take away as well; "
                "move or delete them first"
            )
        self._delete(database, self._entry(state))


class QosKind(Kind[QosModel]):
    """A quality of service."""

    resource = Qos
    timeout_s = 120.0

    def mistakes(self, wanted: QosModel) -> Iterable[Mistake]:
        yield from connection_mistakes({"controller": wanted.controller}, self._home.data)

    def create(self, wanted: QosModel, task: Task) -> Made:
        self._set(wanted)
        return Made(wanted.qos)

    def update(self, id: str, old: QosModel, wanted: QosModel, task: Task) -> Mapping[str, Plain]:
        self._set(wanted)
        return {}

    def look(self, id: str, state: QosModel) -> Mapping[str, Plain] | None:
        try:
            there = self._accounting(state).qualities().get(state.qos)
        except (ControllerDown, DatabaseDown, TimedOut, Unreachable):
            return AS_KNOWN
        if there is None:
            return None
        found: dict[str, tuple[Any, Any]] = {
            "preempts": (sorted(state.preempts), sorted(there.preempts)),
            "preemptMode": (state.preempt_mode, there.preempt_mode),
            "flags": (sorted(state.flags), sorted(there.flags)),
            "limits": (dict(state.limits), dict(there.limits)),
        }
        return {key: now for key, (known, now) in found.items() if known != now}

    def delete(self, id: str, state: QosModel, task: Task) -> None:
        try:
            self._accounting(state).delete_quality(state.qos)
        except Refused as error:
            raise Refusal(f"the quality of service {state.qos} cannot go: {error.words}") from error

    def _set(self, wanted: QosModel) -> None:
        accounting = self._accounting(wanted)
        there = accounting.qualities().get(wanted.qos, Quality(wanted.qos))
        gone = {key: value for key, value in there.limits.items() if key not in wanted.limits}
        quality = Quality(
            wanted.qos,
            wanted.description,
            tuple(wanted.preempts),
            wanted.preempt_mode,
            tuple(wanted.flags),
            wanted.limits,
        )
        try:
            accounting.set_quality(quality, gone)
        except Refused as error:
            raise Refusal(
                f"slurmdbd does not take the quality of service {wanted.qos}: {error.words}"
            ) from error

    def _accounting(self, wanted: QosModel) -> Accounting:
        return Accounting(transport(wanted.controller, self._home.data), "")
