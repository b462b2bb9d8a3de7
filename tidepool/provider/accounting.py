"""The accounts of one cluster in slurmdbd, read and written for many resources at a time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from typing import Any, Final

from tidepool.clients.slurm import Slurm
from tidepool.clients.slurm.accounting import Accounting, Key
from tidepool.clients.slurm.accounting import Association as Entry
from tidepool.clients.slurm.contract import ControllerDown, DatabaseDown, Refused, SlurmError
from tidepool.clients.slurm.limits import Limited
from tidepool.clients.slurm.usage import HOLDING_LIMIT
from tidepool.clients.transport import TimedOut, Transport, Unreachable
from tidepool.infrastructures.connection import transport
from tidepool.provider.together import Together
from tidepool.resources.kind import Home, Refusal
from tidepool.resources.values import Plain

_FRESH_S: Final = 5.0
#: Resources that wait for the same ones are written one after the other, some milliseconds apart; each write takes 0.1 s and more.
_LULL_S: Final = 0.05
#: A slurmctld that does not answer is not asked for as long, for scontrol takes 9 s to say so.
_SILENT_S: Final = 60.0
#: The limit by which the scaler holds an account whose budget is spent.
HOLD: Final = {HOLDING_LIMIT: "0"}
#: Then nothing can be seen, and what cannot be seen is not gone.
UNSEEN: Final = (ControllerDown, DatabaseDown, TimedOut, Unreachable)


@dataclass(frozen=True, slots=True)
class Write:
    """Associations of one resource that are to be; and of ``account`` users that are not, with ``all_gone`` itself with them."""

    entries: tuple[Entry, ...] = ()
    account: str = ""
    gone: tuple[str, ...] = ()
    all_gone: bool = False
    #: Where the scaler holds the account, for its budget is spent, it stays held.
    keeps_hold: bool = False


class Database:
    """The accounting of one cluster by one connection: reads and writes of many resources at a time.

    ``writing`` is held by whoever writes by that connection.
    """

    def __init__(self, way: Transport, cluster: str, writing: threading.Lock) -> None:
        self.accounting, self.writing = Accounting(way, cluster), writing
        self.write: Together[Write, None] = Together(self.write_all, _LULL_S)
        #: Accounts that an `Accounts` has: an `Account` of an older Tidepool that goes leaves them alone.
        self.in_tree: frozenset[str] = frozenset()
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
                except UNSEEN:
                    found, fresh_s = (), _SILENT_S
                self._used = {(each.account, each.user): each for each in found if not each.qos}
                self._used_until_s = time.monotonic() + fresh_s
            return self._used

    def _expire(self) -> None:
        with self._reading:
            self._until_s = 0.0

    def write_all(self, writes: Sequence[Write]) -> Sequence[Exception | None]:
        """Write all of these at once, and return for each its error, if any; one that is refused holds up no other."""
        with self.writing:
            if any(each.all_gone for each in writes):
                self._expire()  # what came below an account just now would go with it
            there = self.read()
            try:
                self._write_all(writes, there)
                return [None] * len(writes)
            except (Refused, Refusal):
                # Those behind one that cannot be are not written: each by itself, so that they are, and that one is told of.
                return [self._write_one(each) for each in writes]
            finally:
                self._expire()

    def _write_one(self, write: Write) -> Exception | None:
        if write.all_gone:
            self._expire()  # what was below it may have moved
        try:
            self._write_all([write], self.read())
        except (SlurmError, Refusal) as error:
            return error
        return None

    def _write_all(self, writes: Sequence[Write], there: Mapping[Key, Entry]) -> None:
        leaving = {each.account for each in writes if each.all_gone}
        written = {entry.key: entry for each in writes for entry in each.entries}
        for each in writes:
            if each.all_gone:
                _must_be_alone(each, leaving, {**there, **written})
        for each in writes:
            key = (each.account, "")
            if each.keeps_hold and key in written and is_held(there.get(key)):
                written[key] = replace(written[key], limits={**written[key].limits, **HOLD})
        self.accounting.set_associations(_parents_first(written), there)
        # Also of accounts that go: one that is somebody's default would stay.
        self.accounting.delete_users(
            [(each.account, user) for each in writes for user in each.gone], {**there, **written}
        )
        if leaving:
            self.accounting.delete_accounts(sorted(leaving))


def _parents_first(entries: Mapping[Key, Entry]) -> list[Entry]:
    """Return entries so that each account follows its parent, and users follow all accounts."""
    accounts = {account: each for (account, user), each in entries.items() if not user}
    order = TopologicalSorter({name: [accounts[name].parent] for name in sorted(accounts)}).static_order()
    users = sorted((each for each in entries.values() if each.user), key=lambda each: each.key)
    return [*(accounts[name] for name in order if name in accounts), *users]


def is_held(there: Entry | None) -> bool:
    """Tell if the scaler holds the account, for its budget is spent."""
    return there is not None and HOLD.items() <= there.limits.items()


def _must_be_alone(write: Write, leaving: Collection[str], there: Mapping[Key, Entry]) -> None:
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


def not_held(there: Entry, known: Entry) -> Entry:
    """Return an account as it would be if its budget were not spent."""
    if not is_held(there):
        return there
    limits = {name: value for name, value in there.limits.items() if name != HOLDING_LIMIT}
    own = {name: value for name, value in known.limits.items() if name == HOLDING_LIMIT}
    return replace(there, limits={**limits, **own})


_lock: Final = threading.Lock()
_databases: Final[dict[tuple[str, str], Database]] = {}
_writing: Final[dict[str, threading.Lock]] = {}


def database(home: Home, connection: Mapping[str, Any], cluster: str = "") -> Database:
    """Return the accounting of ``cluster`` by a connection, the same for all who ask."""
    way = json.dumps([str(home.data), dict(connection)], sort_keys=True)
    with _lock:
        if (way, cluster) not in _databases:
            writing = _writing.setdefault(way, threading.Lock())
            _databases[way, cluster] = Database(transport(connection, home.data), cluster, writing)
        return _databases[way, cluster]


def written(name: str, database: Database, write: Write) -> None:
    """Write, and raise a `Refusal` that names ``name`` where slurmdbd does not take it."""
    try:
        database.write(write)
    except Refused as error:
        raise Refusal(f"slurmdbd does not take {name}: {error.words}{remedy(error)}") from error


def remedy(error: Refused) -> str:
    """Return the remedy of a refusal, to be appended to it; empty where it is not known."""
    return "; wait for these jobs, or cancel them with `scancel`" if "job" in error.words.lower() else ""


def differences(known: Entry, there: Entry) -> dict[str, Plain]:
    """Return what is otherwise there, of an account or a user."""
    changed: dict[str, Plain] = {}
    if there.shares != known.shares:
        changed["shares"] = there.shares
    if dict(there.limits) != dict(known.limits):
        changed["limits"] = dict(there.limits)
    return changed
