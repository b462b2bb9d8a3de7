"""tidepool:slurm:Accounts, Account and Association: who may use how much, as slurmdbd knows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from tidepool.clients.slurm.accounting import Association as Entry
from tidepool.clients.slurm.accounting import Key
from tidepool.clients.slurm.contract import Refused
from tidepool.clients.slurm.limits import exceeded, lowered
from tidepool.cluster.accounts import ROOT_ACCOUNT
from tidepool.cluster.failures import Note
from tidepool.provider.accounting import (
    UNSEEN,
    Database,
    Write,
    database,
    differences,
    not_held,
    remedy,
    written,
)
from tidepool.provider.machines import connection_mistakes
from tidepool.resources.accounts import (
    Account,
    AccountModel,
    Accounts,
    AccountsModel,
    Association,
    AssociationModel,
    account_user,
)
from tidepool.resources.kind import AS_KNOWN, Kind, Made, Refusal, Task
from tidepool.resources.reading import Mistake, Reading, read
from tidepool.resources.values import Plain


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
        except UNSEEN:
            return AS_KNOWN
        if there is None:
            return None
        changed = differences(_user(state.account, state.user, _settings_of(state)), there)
        # Slurm has a default for everybody: one that nobody asked for is no difference.
        return changed | ({"default": False} if state.default and not there.is_default else {})

    def delete(self, id: str, state: AssociationModel, task: Task) -> None:
        write = Write(account=state.account, gone=(state.user,))
        written(_name(state), self._database(state), write)

    def _write(self, wanted: AssociationModel) -> None:
        entry = _user(wanted.account, wanted.user, _settings_of(wanted))
        written(_name(wanted), self._database(wanted), Write((entry,)))

    def _database(self, wanted: AssociationModel) -> Database:
        return database(self._home, wanted.controller, wanted.cluster)


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
        written(f"the account {wanted.account}", self._database(wanted), _write(wanted, None))
        return Made(f"{wanted.cluster}/{wanted.account}")

    def refuse_update(self, old: AccountModel, wanted: AccountModel) -> Iterator[Note]:
        yield from _notes(self._database(wanted), [(old, wanted)])

    def update(self, id: str, old: AccountModel, wanted: AccountModel, task: Task) -> Mapping[str, Plain]:
        written(f"the account {wanted.account}", self._database(wanted), _write(wanted, old))
        return {}

    def look(self, id: str, state: AccountModel) -> Mapping[str, Plain] | None:
        try:
            return _changes(state, self._database(state).read())
        except UNSEEN:
            return AS_KNOWN

    def delete(self, id: str, state: AccountModel, task: Task) -> None:
        database = self._database(state)
        if state.account in database.in_tree:
            return
        try:
            database.write(_removal(state))
        except Refused as error:
            raise Refusal(_stays(state.account, error)) from error

    def _database(self, wanted: AccountModel) -> Database:
        return database(self._home, wanted.controller, wanted.cluster)


class AccountsKind(Kind[AccountsModel]):
    """All accounts of a cluster with their users."""

    resource = Accounts
    #: One at a time, where slurmdbd refuses one of them.
    timeout_s = 600.0

    def mistakes(self, wanted: AccountsModel) -> Iterable[Mistake]:
        mistakes = list(connection_mistakes({"controller": wanted.controller}, self._home.data))
        try:
            readings = _readings(wanted)
        except CycleError as error:
            return [*mistakes, Mistake("accounts", f"there is a cycle: {' is above '.join(error.args[1])}")]
        for name, reading in readings.items():
            mistakes += (
                Mistake(f"accounts.{name}.{each.property}", each.reason) for each in reading.mistakes
            )
        if not mistakes:
            # Also of a tree that an `up` before this one wrote, and was cut off: its older resources go in this one.
            self._database(wanted).in_tree = frozenset(readings)
        return mistakes

    def create(self, wanted: AccountsModel, task: Task) -> Made:
        self._write(wanted, {})
        return Made(wanted.cluster)

    def refuse_update(self, old: AccountsModel, wanted: AccountsModel) -> Iterator[Note]:
        before, after = _accounts(old), _accounts(wanted)
        if changes := [*_changed(before, after)]:
            more = f", and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
            yield Note(f"{'; '.join(changes[:_SHOWN])}{more}", is_warning=False)
        pairs = [(before[name], each) for name, each in after.items() if name in before]
        yield from _notes(self._database(wanted), pairs)

    def update(self, id: str, old: AccountsModel, wanted: AccountsModel, task: Task) -> Mapping[str, Plain]:
        self._write(wanted, _accounts(old))
        return {}

    def look(self, id: str, state: AccountsModel) -> Mapping[str, Plain] | None:
        try:
            there = self._database(state).read()
        except UNSEEN:
            return AS_KNOWN
        found = {}
        for name, each in _accounts(state).items():
            if (changes := _changes(each, there)) is not None:
                found[name] = {**state.accounts[name], **changes}
        return {} if found == state.accounts else {"accounts": found}

    def delete(self, id: str, state: AccountsModel, task: Task) -> None:
        self._database(state).in_tree = frozenset()
        self._apply(state, [_removal(each) for each in reversed([*_accounts(state).values()])])

    def _write(self, wanted: AccountsModel, before: Mapping[str, AccountModel]) -> None:
        accounts = _accounts(wanted)
        self._database(wanted).in_tree = frozenset(accounts)
        writes = [
            _write(each, before.get(name)) for name, each in accounts.items() if each != before.get(name)
        ]
        gone = [_removal(each) for name, each in reversed([*before.items()]) if name not in accounts]
        self._apply(wanted, [*writes, *gone])

    def _apply(self, wanted: AccountsModel, writes: list[Write]) -> None:
        errors = zip(writes, self._database(wanted).write_all(writes), strict=True) if writes else ()
        if failed := [(write, error) for write, error in errors if error is not None]:
            words = [_reason(write, error) for write, error in failed]
            more = f"\nand {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
            raise Refusal("\n".join(words[:_SHOWN]) + more) from failed[0][1]

    def _database(self, wanted: AccountsModel) -> Database:
        return database(self._home, wanted.controller, wanted.cluster)


#: Of so many accounts at a time it is told that they change, or are refused.
_SHOWN: Final = 8


def _readings(tree: AccountsModel) -> dict[str, Reading[AccountModel]]:
    """The accounts of a tree, each after the one that it is a part of."""
    parents = {name: [str(each.get("parent", ""))] for name, each in sorted(tree.accounts.items())}
    shared = {"controller": tree.controller, "cluster": tree.cluster}
    return {
        name: read(AccountModel, {**shared, "account": name, **tree.accounts[name]}, strict=True)
        for name in TopologicalSorter(parents).static_order()
        if name in tree.accounts
    }


def _accounts(tree: AccountsModel) -> dict[str, AccountModel]:
    return {name: reading.value for name, reading in _readings(tree).items()}


def _write(wanted: AccountModel, before: AccountModel | None) -> Write:
    """Return what makes the account out of one that was ``before``, or out of none."""
    gone = tuple(sorted({*((before and before.users) or {})} - {*(wanted.users or {})}))
    users = [_user(wanted.account, user, settings) for user, settings in sorted((wanted.users or {}).items())]
    is_described = before is None or wanted.description != before.description
    # With another budget its jobs may begin, until the scaler has seen that it is spent as well.
    keeps_hold = bool(wanted.budget) and (before is None or wanted.budget == before.budget)
    account = replace(_account(wanted), is_described=is_described)
    return Write((account, *users), wanted.account, gone, keeps_hold=keeps_hold)


def _removal(account: AccountModel) -> Write:
    return Write(account=account.account, gone=tuple(account.users or ()), all_gone=True)


def _reason(write: Write, error: Exception) -> str:
    """Return a line for a person: why an account is not written."""
    if not isinstance(error, Refused):
        return str(error)
    if write.all_gone:
        return _stays(write.account, error)
    return f"slurmdbd does not take the account {write.account}: {error.words}{remedy(error)}"


def _stays(account: str, error: Refused) -> str:
    return f"the account {account} cannot go: {error.words}{remedy(error)}"


def _changed(before: Mapping[str, AccountModel], after: Mapping[str, AccountModel]) -> Iterator[str]:
    """Yield in words how each account changes: previews show of a resource no more than its properties."""
    for name in sorted({*before, *after}):
        if name not in before:
            yield f"{name} is new"
        elif name not in after:
            yield f"{name} goes"
        elif keys := [key for key, value in vars(after[name]).items() if value != vars(before[name])[key]]:
            yield f"{name} changes in {', '.join(keys)}"


def _notes(database: Database, pairs: Iterable[tuple[AccountModel, AccountModel]]) -> Iterator[Note]:
    """Yield a note for each limit that becomes lower than what is used of it."""
    for old, wanted in pairs:
        before, after = _limits_of(old), _limits_of(wanted)
        less = {user: lowered(before.get(user, {}), limits) for user, limits in after.items()}
        there = database.in_use() if any(less.values()) else {}
        for user, limits in less.items():
            if known := there.get((wanted.account, user)):
                for words in exceeded(limits, known):
                    yield Note(f"{words}: what runs goes on, and nothing begins until it is below")


def _changes(state: AccountModel, all_there: Mapping[Key, Entry]) -> Mapping[str, Plain] | None:
    """Return the properties that differ in the database from the state; None where the account is not there."""
    known, there = _account(state), all_there.get((state.account, ""))
    if there is None:
        return None
    changed = differences(known, not_held(there, known) if state.budget else there)
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
