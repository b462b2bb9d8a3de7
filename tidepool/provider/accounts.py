"""tidepool:slurm:Qos, Account and Association: what slurmdbd knows of who may use how much."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tidepool.clients.slurm import Slurm
from tidepool.clients.slurm.accounting import Accounting, Key, Quality
from tidepool.clients.slurm.accounting import Association as Entry
from tidepool.clients.slurm.contract import ControllerDown, DatabaseDown, Refused, SlurmError
from tidepool.clients.slurm.limits import Limited, exceeded
from tidepool.clients.slurm.usage import HOLDING_LIMIT
from tidepool.clients.transport import TimedOut, Transport, Unreachable
from tidepool.cluster.accounts import ROOT_ACCOUNT
from tidepool.cluster.failures import Note
from tidepool.infrastructures.connection import transport
from tidepool.provider.machines import connection_mistakes
from tidepool.provider.together import Together
from tidepool.resources.accounts import (
    Account,
    AccountModel,
    Association,
    AssociationModel,
    Qos,
    QosModel,
    account_user,
)
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Refusal, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain

_FRESH_S: Final = 5.0
#: Resources that wait for the same ones are written one after the other, some milliseconds apart; each write takes 0.1 s and more.
_LULL_S: Final = 0.05
#: A slurmctld that does not answer is not asked for as long, for scontrol takes 9 s to say so.
_SILENT_S: Final = 60.0
#: The limit by which the scaler holds an account whose budget is spent.
_HOLD: Final = {HOLDING_LIMIT: "0"}
#: Then nothing can be seen, and what cannot be seen is not gone.
_UNSEEN: Final = (ControllerDown, DatabaseDown, TimedOut, Unreachable)


@dataclass(frozen=True, slots=True)
class _Write:
    """Associations of one resource that are to be; and of ``account`` users that are not, with ``all_gone`` itself with them."""

    entries: tuple[Entry, ...] = ()
    account: str = ""
    gone: tuple[str, ...] = ()
    all_gone: bool = False
    #: Where the scaler holds the account, for its budget is spent, it stays held.
    keeps_hold: bool = False


class _Database:
    """The accounting of one cluster by one connection: reads and writes of many resources at a time.

    ``writing`` is held by whoever writes by that connection.
    """

    def __init__(self, way: Transport, cluster: str, writing: threading.Lock) -> None:
        self.accounting, self.writing = Accounting(way, cluster), writing
        self.write: Together[_Write, None] = Together(self._write, _LULL_S)
        self._reading = threading.Lock()
        self._seen: Mapping[Key, Entry] = {}
        self._until_s = 0.0
        self._way = way
        # Its own: what is there is known meanwhile.
        self._asking = threading.Lock()
        self._used: Mapping[Key, Limited] = {}
        self._used_until_s = 0.0

    def read(self) -> Mapping[Key, Entry]:
        """Return what is there, as of a few seconds ago: a refresh of a thousand sees one moment."""
        with self._reading:
            if time.monotonic() >= self._until_s:
                self._seen = self.accounting.associations()
                self._until_s = time.monotonic() + _FRESH_S
            return self._seen

    def in_use(self) -> Mapping[Key, Limited]:
        """Return what is used of limits, as of a few seconds ago; nothing where Slurm cannot be asked."""
        with self._asking:
            if time.monotonic() >= self._used_until_s:
                fresh_s = _FRESH_S
                try:
                    found = Slurm(self._way).limits()
                except _UNSEEN:
                    found, fresh_s = (), _SILENT_S
                self._used = {(each.account, each.user): each for each in found if not each.qos}
                self._used_until_s = time.monotonic() + fresh_s
            return self._used

    def _expire(self) -> None:
        with self._reading:
            self._until_s = 0.0

    def _write(self, writes: Sequence[_Write]) -> Sequence[Exception | None]:
        with self.writing:
            if any(each.all_gone for each in writes):
                self._expire()  # what came below an account just now would go with it
            there = self.read()
            try:
                self._write_all(writes, there)
                return [None] * len(writes)
            except (Refused, Refusal):
                # Those behind one that cannot be are not written: each by itself, so that they are, and that one is told of.
                return [self._write_one(each, there) for each in writes]
            finally:
                self._expire()

    def _write_one(self, write: _Write, there: Mapping[Key, Entry]) -> Exception | None:
        try:
            self._write_all([write], there)
        except (SlurmError, Refusal) as error:
            return error
        return None

    def _write_all(self, writes: Sequence[_Write], there: Mapping[Key, Entry]) -> None:
        leaving = {each.account for each in writes if each.all_gone}
        for each in writes:
            if each.all_gone:
                _must_be_alone(each, leaving, there)
        written = {entry.key: entry for each in writes for entry in each.entries}
        for each in writes:
            key = (each.account, "")
            if each.keeps_hold and key in written and _is_held(there.get(key)):
                written[key] = replace(written[key], limits={**written[key].limits, **_HOLD})
        # Accounts before their users; a parent was written when whoever is below it is asked for.
        ordered = sorted(written.values(), key=lambda each: (each.user != "", each.key))
        self.accounting.set_associations(ordered, there)
        # Also of accounts that go: one that is somebody's default would stay.
        self.accounting.delete_users(
            [(each.account, user) for each in writes for user in each.gone], {**there, **written}
        )
        if leaving:
            self.accounting.delete_accounts(sorted(leaving))


def _is_held(there: Entry | None) -> bool:
    return there is not None and _HOLD.items() <= there.limits.items()


def _must_be_alone(write: _Write, leaving: Collection[str], there: Mapping[Key, Entry]) -> None:
    """Refuse to delete an account while others are below it, which Slurm would take away as well."""
    below = [
        each.user or each.account
        for each in there.values()
        if (each.parent == write.account and each.account not in leaving)
        or (each.account == write.account and each.user not in {"", *write.gone})
    ]
    if below:
        more = f" and {len(below) - 10} more" if len(below) > 10 else ""
        raise Refusal(
            f"the account {write.account} cannot go: below it are {', '.join(below[:10])}{more}, which Slurm would take away as "
            "well; move or delete them first"
        )


_lock: Final = threading.Lock()
_databases: Final[dict[tuple[str, str], _Database]] = {}
_writing: Final[dict[str, threading.Lock]] = {}


def _database(home: Home, connection: Mapping[str, Any], cluster: str = "") -> _Database:
    way = json.dumps([str(home.data), dict(connection)], sort_keys=True)
    with _lock:
        if (way, cluster) not in _databases:
            writing = _writing.setdefault(way, threading.Lock())
            _databases[way, cluster] = _Database(transport(connection, home.data), cluster, writing)
        return _databases[way, cluster]


def _written(name: str, database: _Database, write: _Write) -> None:
    try:
        database.write(write)
    except Refused as error:
        raise Refusal(f"slurmdbd does not take {name}: {error.words}{_remedy(error)}") from error


def _remedy(error: Refused) -> str:
    return "; wait for these jobs, or cancel them with `scancel`" if "job" in error.words.lower() else ""


def _differences(known: Entry, there: Entry) -> dict[str, Plain]:
    changed: dict[str, Plain] = {}
    if there.shares != known.shares:
        changed["shares"] = there.shares
    if dict(there.limits) != dict(known.limits):
        changed["limits"] = dict(there.limits)
    return changed


class AssociationKind(Kind[AssociationModel]):
    """A user in an account."""

    resource = Association

    def mistakes(self, wanted: AssociationModel) -> Iterable[Mistake]:
        yield from connection_mistakes({"controller": wanted.controller}, self._home.data)

    def create(self, wanted: AssociationModel, task: Task) -> Made:
        self._write(wanted)
        return Made(f"{wanted.cluster}/{_name(wanted)}")

    def update(
        self, id: str, old: AssociationModel, wanted: AssociationModel, task: Task
    ) -> Mapping[str, Plain]:
        self._write(wanted)
        return {}

    def look(self, id: str, state: AssociationModel) -> Mapping[str, Plain] | None:
        try:
            there = self._database(state).read().get((state.account, state.user))
        except _UNSEEN:
            return AS_KNOWN
        if there is None:
            return None
        changed = _differences(_user(state.account, state.user, _settings_of(state)), there)
        # Slurm has a default for everybody: one that nobody asked for is no difference.
        return changed | ({"default": False} if state.default and not there.is_default else {})

    def delete(self, id: str, state: AssociationModel, task: Task) -> None:
        write = _Write(account=state.account, gone=(state.user,))
        _written(_name(state), self._database(state), write)

    def _write(self, wanted: AssociationModel) -> None:
        entry = _user(wanted.account, wanted.user, _settings_of(wanted))
        _written(_name(wanted), self._database(wanted), _Write((entry,)))

    def _database(self, wanted: AssociationModel) -> _Database:
        return _database(self._home, wanted.controller, wanted.cluster)


def _name(wanted: AssociationModel) -> str:
    return f"{wanted.account}/{wanted.user}"


def _settings_of(wanted: AssociationModel) -> Mapping[str, Any]:
    return account_user(wanted.shares, wanted.limits, wanted.default)


def _user(account: str, user: str, settings: Mapping[str, Any]) -> Entry:
    return Entry(
        account,
        user,
        shares=int(settings.get("shares", 1)),
        limits=settings.get("limits", {}),
        is_default=settings.get("default", False),
    )


class AccountKind(Kind[AccountModel]):
    """An account with its users."""

    resource = Account

    def mistakes(self, wanted: AccountModel) -> Iterable[Mistake]:
        yield from connection_mistakes({"controller": wanted.controller}, self._home.data)

    def create(self, wanted: AccountModel, task: Task) -> Made:
        self._write(wanted, is_described=True, keeps_hold=bool(wanted.budget))
        return Made(f"{wanted.cluster}/{wanted.account}")

    def refuse_update(self, old: AccountModel, wanted: AccountModel) -> Iterator[Note]:
        before, after = _limits_of(old), _limits_of(wanted)
        changed = {user: limits for user, limits in after.items() if limits != before.get(user, {})}
        there = self._database(wanted).in_use() if changed else {}
        for user, limits in changed.items():
            if known := there.get((wanted.account, user)):
                for words in exceeded(limits, known):
                    yield Note(f"{words}: what runs goes on, and nothing begins until it is below")

    def update(self, id: str, old: AccountModel, wanted: AccountModel, task: Task) -> Mapping[str, Plain]:
        gone = tuple(sorted({*(old.users or {})} - {*(wanted.users or {})}))
        # With another budget its jobs may begin, until the scaler has seen that it is spent as well.
        self._write(
            wanted,
            gone,
            is_described=wanted.description != old.description,
            keeps_hold=bool(wanted.budget) and wanted.budget == old.budget,
        )
        return {}

    def look(self, id: str, state: AccountModel) -> Mapping[str, Plain] | None:
        try:
            all_there = self._database(state).read()
        except _UNSEEN:
            return AS_KNOWN
        known, there = _account(state), all_there.get((state.account, ""))
        if there is None:
            return None
        changed = _differences(known, _not_held(there, known) if state.budget else there)
        if there.parent != (known.parent or ROOT_ACCOUNT):
            changed["parent"] = there.parent
        if set(there.qos) != set(known.qos):
            changed["qos"] = list(there.qos)
        if there.default_qos != known.default_qos:
            changed["defaultQos"] = there.default_qos
        if state.users is not None:
            users = {
                user: _settings(entry, state.users.get(user, {}))
                for (account, user), entry in all_there.items()
                if account == state.account and user
            }
            if users != state.users:
                changed["users"] = users
        return changed

    def delete(self, id: str, state: AccountModel, task: Task) -> None:
        write = _Write(account=state.account, gone=tuple(state.users or ()), all_gone=True)
        try:
            self._database(state).write(write)
        except Refused as error:
            raise Refusal(f"the account {state.account} cannot go: {error.words}{_remedy(error)}") from error

    def _write(
        self, wanted: AccountModel, gone: tuple[str, ...] = (), *, is_described: bool, keeps_hold: bool
    ) -> None:
        users = [
            _user(wanted.account, user, settings) for user, settings in sorted((wanted.users or {}).items())
        ]
        account = replace(_account(wanted), is_described=is_described)
        write = _Write((account, *users), wanted.account, gone, keeps_hold=keeps_hold)
        _written(f"the account {wanted.account}", self._database(wanted), write)

    def _database(self, wanted: AccountModel) -> _Database:
        return _database(self._home, wanted.controller, wanted.cluster)


def _not_held(there: Entry, known: Entry) -> Entry:
    """Return an account as it would be if its budget were not spent."""
    if not _is_held(there):
        return there
    limits = {name: value for name, value in there.limits.items() if name != HOLDING_LIMIT}
    own = {name: value for name, value in known.limits.items() if name == HOLDING_LIMIT}
    return replace(there, limits={**limits, **own})


def _account(wanted: AccountModel) -> Entry:
    return Entry(
        wanted.account,
        parent=wanted.parent,
        shares=wanted.shares,
        limits=wanted.limits,
        qos=tuple(wanted.qos),
        default_qos=wanted.default_qos,
        description=wanted.description,
    )


def _limits_of(account: AccountModel) -> dict[str, Mapping[str, str]]:
    """The limits of an account (user: empty) and of its users."""
    return {
        "": account.limits,
        **{user: each.get("limits", {}) for user, each in (account.users or {}).items()},
    }


def _settings(there: Entry, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return a user as the state has one; a default that nobody asked for is not told."""
    return account_user(there.shares, there.limits, bool(known.get("default")) and there.is_default)


def foreign_quality(name: str) -> str:
    """Return why a quality of service cannot be had: slurmdbd has one of a name for all clusters."""
    return (
        f"the quality of service {name} is another cluster's, and slurmdbd has one of a name for all clusters that share it: take "
        "another name, such as that of the cluster with this one behind it"
    )


class QosKind(Kind[QosModel]):
    """A quality of service."""

    resource = Qos
    timeout_s = 120.0

    def mistakes(self, wanted: QosModel) -> Iterable[Mistake]:
        yield from connection_mistakes({"controller": wanted.controller}, self._home.data)

    def create(self, wanted: QosModel, task: Task) -> Made:
        self._set(wanted, is_new=True)
        return Made(wanted.qos)

    def update(self, id: str, old: QosModel, wanted: QosModel, task: Task) -> Mapping[str, Plain]:
        self._set(wanted)
        return {}

    def look(self, id: str, state: QosModel) -> Mapping[str, Plain] | None:
        try:
            there = self._database(state).accounting.qualities().get(state.qos)
        except _UNSEEN:
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
        database = self._database(state)
        try:
            with database.writing:
                database.accounting.delete_quality(state.qos)
        except Refused as error:
            raise Refusal(f"the quality of service {state.qos} cannot go: {error.words}") from error

    def _set(self, wanted: QosModel, *, is_new: bool = False) -> None:
        database = self._database(wanted)
        quality = Quality(
            wanted.qos,
            wanted.description,
            tuple(wanted.preempts),
            wanted.preempt_mode,
            tuple(wanted.flags),
            wanted.limits,
        ).of_cluster(wanted.cluster)
        try:
            with database.writing:
                there = database.accounting.add_quality(quality)
                if is_new and there.owner != wanted.cluster:
                    raise Refusal(foreign_quality(wanted.qos))
                database.accounting.set_quality(quality, there)
        except Refused as error:
            raise Refusal(
                f"slurmdbd does not take the quality of service {wanted.qos}: {error.words}"
            ) from error

    def _database(self, wanted: QosModel) -> _Database:
        return _database(self._home, wanted.controller)
