"""Accounts, their users and qualities of service in slurmdbd, read and written by sacctmgr.

Many associations are written by one `sacctmgr load`: of 22.05 it adds what is not there and changes what differs, 1,200 in
3 s, where a command for each takes a tenth of a second and more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from tidepool.clients.slurm.client import ENVIRONMENT
from tidepool.clients.slurm.commands import judge
from tidepool.clients.slurm.contract import Malformed, Refused
from tidepool.clients.slurm.request import one_line
from tidepool.clients.transport import Transport
from tidepool.cluster import slurm_limits
from tidepool.cluster.accounts import ROOT_ACCOUNT
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.slurm_limits import Limit, Table

#: slurmdbd may be at work on others' records for long.
TIMEOUT_S: Final = 60.0

#: sacctmgr's words, with which it ends with 1 where all is as it was asked to be.
_DONE_ALREADY: Final = ("Nothing new added", "Nothing deleted", "Nothing modified", "already exists")

#: So many associations are in one `load`, which has `TIMEOUT_S`; 1,200 were seen to take 7 s.
_AT_A_TIME: Final = 2000

#: So many changes are quicker by a command each.
_FEW: Final = 2

#: Settings of an account that have blanks.
_TEXTS: Final = frozenset({"Description", "Organization"})

_Record = TypeVar("_Record")
#: An association by its account and its user, who is empty for the account itself.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Association:
    """An account, or ``user`` in it; ``limits`` by Slurm's names, in the form of `tidepool.cluster.slurm_limits`.

    Of a user's, ``parent`` is empty. ``description`` is not read, and written where it ``is_described`` or the account is new. ``is_default`` where jobs of the user that name no account are this one's. What an
    account above has, and this one has not, is not told.
    """

    account: str
    user: str = ""
    parent: str = ""
    shares: int = 1
    limits: Mapping[str, str] = FrozenDict()
    qos: tuple[str, ...] = ()
    default_qos: str = ""
    description: str = ""
    is_default: bool = False
    is_described: bool = True

    @property
    def key(self) -> Key:
        return self.account, self.user

    def differs(self, there: Association) -> bool:
        """Return whether it has to be written where ``there`` is; what describes an account is not known."""
        if not self.user and (self.is_described or self.moves(there)):
            return True
        here = (self.shares, dict(self.limits), self.is_default and not there.is_default)
        return here != (there.shares, dict(there.limits), False)

    def moves(self, there: Association) -> bool:
        """Return whether it is an account of another parent, or of other qualities of service."""
        here = (self.parent or ROOT_ACCOUNT, set(self.qos), self.default_qos)
        return not self.user and here != (there.parent, set(there.qos), there.default_qos)


@dataclass(frozen=True, slots=True)
class Quality:
    """A quality of service, and what is set of it."""

    name: str
    description: str = ""
    preempts: tuple[str, ...] = ()
    preempt_mode: str = "cluster"
    flags: tuple[str, ...] = ()
    limits: Mapping[str, str] = field(default_factory=FrozenDict)

    @property
    def owner(self) -> str:
        """The cluster that made it in another's slurmdbd, which its description ends with; empty where it is nobody's, or of who has that."""
        found = _OWNER.search(self.description)
        return found[1] if found else ""

    def of_cluster(self, cluster: str) -> Quality:
        """Return it with ``cluster`` for its owner; with none where that is empty."""
        text = self.description or self.name
        return replace(self, description=f"{text} (of {cluster})") if cluster else self


#: slurmdbd has one quality of service of a name for all clusters, and nothing but this that says whose it is.
_OWNER: Final = re.compile(r" \(of ([a-z][a-z0-9_-]*)\)$")


class Accounting:
    """slurmdbd, through the commands of a machine of ``cluster``. Every call raises `SlurmError`.

    Accounts and qualities of service are all clusters', which share the database; associations are a cluster's own. One
    change at a time: of changes side by side slurmdbd 22.05 dies in a deadlock of MariaDB's, and may not start again.
    """

    def __init__(self, transport: Transport, cluster: str, timeout_s: float = TIMEOUT_S) -> None:
        self._transport, self._cluster, self._timeout_s = transport, cluster, timeout_s

    # Looking

    def associations(self) -> Mapping[Key, Association]:
        """Return all associations of the cluster but those of partitions, by account and user (empty: the account's own)."""
        limits = _columns(slurm_limits.ASSOCIATION)
        columns = ["Account", "User", "Partition", "ParentName", "Share", "QOS", "DefaultQOS", *limits]

        def read(
            account: str,
            user: str,
            partition: str,
            parent: str,
            shares: str,
            qos: str,
            default: str,
            *values: str,
        ) -> tuple[str, Association]:
            # `parent` shares those of its parent.
            number = int(shares) if shares.isdecimal() else 0
            found = _limits(limits, values)
            return partition, Association(account, user, parent, number, found, _words(qos), default)

        mine = f"cluster={self._cluster}"
        with ThreadPoolExecutor(1) as beside:
            defaults = beside.submit(self._show, "user", ["DefaultAccount", "User"], _pair, "withassoc", mine)
            # Without those limits that an account above has, which would be shown as if they were its own.
            records = self._show("association", columns, read, mine, "WOPLimits")
        there = {association.key: association for partition, association in records if not partition}
        for key in there.keys() & set(defaults.result()):
            there[key] = replace(there[key], is_default=True)
        return there

    def qualities(self) -> Mapping[str, Quality]:
        """Return all qualities of service, by name."""
        limits = _columns(slurm_limits.QOS)
        columns = ["Name", "Descr", "Preempt", "PreemptMode", "Flags", *limits]

        def read(name: str, text: str, preempts: str, mode: str, flags: str, *values: str) -> Quality:
            return Quality(name, text, _words(preempts), mode, _words(flags), _limits(limits, values))

        return {quality.name: quality for quality in self._show("qos", columns, read)}

    def clusters(self) -> Mapping[str, str]:
        """Return all clusters of the database by name: where each slurmctld is; of one that is down, nothing."""
        return dict(self._show("cluster", ["Cluster", "ControlHost"], _pair))

    def foreign_accounts(self) -> frozenset[str]:
        """Return the accounts that other clusters have."""
        found = self._show("association", ["Cluster", "Account"], _pair, "user=")
        return frozenset(account for cluster, account in found if cluster != self._cluster)

    # Changing

    def set_associations(
        self, wanted: Iterable[Association], there: Mapping[Key, Association] = FrozenDict()
    ) -> None:
        """Have all of these. Parents are there, or among them and before.

        ``there`` is what `associations` gives: of those the limits that are not wanted are taken away, and accounts move
        to another parent with all below them.

        Raises:
            Refused: one of them cannot be; those before it may be there.
        """
        wanted = tuple(wanted)
        described = {
            each.account for each in wanted if not each.user and (each.is_described or each.key not in there)
        }
        if described:
            # An account has one description for all clusters: that of who had it first.
            described -= self.foreign_accounts()
        wanted = tuple(replace(each, is_described=each.account in described) for each in wanted)
        new = [each for each in wanted if each.key not in there]
        changed = [each for each in wanted if each.key in there and each.differs(there[each.key])]
        # `load` leaves parents and qualities of service alone of what is there, and takes longer than one command.
        apart = [each for each in changed if each.moves(there[each.key])]
        rest = [each for each in changed if each not in apart]
        if not new and len(rest) <= _FEW and not any(each.is_default for each in rest):
            apart, rest = changed, []
        entries = [*new, *rest]
        for start in range(0, len(entries), _AT_A_TIME):
            self._load(entries[start : start + _AT_A_TIME], there)
        for each in apart:
            self._modify(each, there[each.key])

    def _load(self, entries: Iterable[Association], there: Mapping[Key, Association]) -> None:
        lines = [f"Cluster - {_quoted(self._cluster)}"]
        below = ""
        for each in entries:
            over = each.account if each.user else each.parent or ROOT_ACCOUNT
            if over != below:
                lines.append(f"Parent - {_quoted(over)}")
                below = over
            lines.append(_line(each, there.get(each.key)))
        if len(lines) > 1:
            self._do(["load", "/dev/stdin"], stdin="\n".join([*lines, ""]))

    def _modify(self, each: Association, there: Association) -> None:
        settings = _settings(each, there)
        if each.user:
            where = ["user", "where", f"name={each.user}", f"account={each.account}"]
        else:
            where = ["account", "where", f"name={each.account}"]
            settings |= {"QOS": ",".join(each.qos), "DefaultQOS": each.default_qos or "-1"}
            if there.parent != (each.parent or ROOT_ACCOUNT):
                settings["Parent"] = each.parent or ROOT_ACCOUNT
        words = [one_line(f"{key}={value}", key) for key, value in settings.items()]
        self._do(["modify", *where, f"cluster={self._cluster}", "set", *words])

    def set_limit(self, accounts: Collection[str], name: str, value: str) -> None:
        """Set a limit of accounts; ``-1`` takes it away. Those that are not there are left out."""
        where = [f"name={','.join(sorted(accounts))}", f"cluster={self._cluster}"]
        self._do(["modify", "account", "where", *where, "set", f"{name}={value}"])

    def delete_accounts(self, accounts: Iterable[str]) -> None:
        """Have none of these accounts in this cluster, whose users are gone already; accounts below them go with them.

        Raises:
            Refused: one of them has jobs, or users: it may be the default of one.
        """
        self._do(["delete", "account", "where", f"name={','.join(accounts)}", f"cluster={self._cluster}"])

    def delete_users(self, gone: Collection[Key], there: Mapping[Key, Association]) -> None:
        """Have none of these users in these accounts; ``there`` is what `associations` gives.

        Whose default account goes has another one of theirs for it.

        Raises:
            Refused: jobs of one of them run there; those before it may be gone.
        """
        gone = {key for key in gone if key in there}
        left = sorted(there.keys() - gone)
        defaults = {user: account for (account, user), each in there.items() if user and each.is_default}
        for user in sorted({user for account, user in gone if defaults.get(user) == account}):
            if other := next((account for account, of in left if of == user), None):
                where = ["where", f"name={user}", f"cluster={self._cluster}"]
                self._do(["modify", "user", *where, "set", f"DefaultAccount={other}"])
                defaults[user] = other
        # slurmdbd of 22.05 refuses a default account behind one that is none, in one request.
        last = {(account, user) for account, user in gone if defaults.get(user) == account}
        for some in gone - last, last:
            self._delete_some(some, there.keys() - (gone - last if some is last else set()))

    def _delete_some(self, gone: AbstractSet[Key], there: AbstractSet[Key]) -> None:
        """Delete users from accounts, by one command where that takes no others away, else by one for each account."""
        accounts, users = {account for account, _ in gone}, {user for _, user in gone}
        alike = {key for key in there if key[0] in accounts and key[1] in users} == gone
        for of in [accounts] if alike else [{account} for account in sorted(accounts)]:
            if names := sorted({user for account, user in gone if account in of}):
                where = [
                    f"name={','.join(names)}",
                    f"account={','.join(sorted(of))}",
                    f"cluster={self._cluster}",
                ]
                self._do(["delete", "user", "where", *where])

    def add_quality(self, wanted: Quality) -> Quality:
        """Have a quality of service of that name, and return it as it is: one that was there, maybe another cluster's, stays so."""
        # With the description at once: who is killed before the rest is written finds that it is theirs.
        description = one_line(f"Description={wanted.description or wanted.name}", "Description")
        self._do(["add", "qos", f"name={wanted.name}", description])
        return self.qualities().get(wanted.name, wanted)

    def set_quality(self, wanted: Quality, there: Quality) -> None:
        """Give a quality of service, which is ``there``, these settings and no other limits."""
        gone = {key: value for key, value in there.limits.items() if key not in wanted.limits}
        settings = {
            "Description": wanted.description or wanted.name,
            "Preempt": ",".join(wanted.preempts),
            "PreemptMode": wanted.preempt_mode,
            "Flags": ",".join(wanted.flags) or "-1",
            **_cleared(slurm_limits.QOS, gone),
            **wanted.limits,
        }
        words = [one_line(f"{key}={value}", key) for key, value in settings.items()]
        self._do(["modify", "qos", "where", f"name={wanted.name}", "set", *words])

    def delete_quality(self, name: str) -> None:
        """Have no such quality of service."""
        self._do(["delete", "qos", "where", f"name={name}"])

    def _do(self, words: Sequence[str], stdin: str = "") -> None:
        argv = ["sacctmgr", "--immediate", *words]
        completed = self._transport.run([*ENVIRONMENT, *argv], stdin=stdin, timeout_s=self._timeout_s)
        said = f"{completed.stdout}\n{completed.stderr}"
        if (
            completed.exit_code in (0, 1)
            and any(each in said for each in _DONE_ALREADY)
            and "need to" not in said
        ):
            return
        judge(argv, completed, self._transport.where)

    def _show(
        self, entity: str, columns: Sequence[str], read: Callable[..., _Record], *where: str
    ) -> list[_Record]:
        argv = ["sacctmgr", "--parsable", "--readonly", "show", entity, *where, f"format={','.join(columns)}"]
        completed = self._transport.run([*ENVIRONMENT, *argv], timeout_s=self._timeout_s)
        header, *lines = judge(argv, completed, self._transport.where).splitlines() or [""]
        try:
            if header.count("|") != len(columns):
                raise ValueError("the header is missing")
            return [read(*line.split("|")[:-1]) for line in lines]
        except (TypeError, ValueError) as fault:
            raise Malformed(
                f"sacctmgr's answer is not what was asked for: {fault}",
                where=f"sacctmgr {self._transport.where}",
                remedy="ask again; if it stays, this version of Slurm writes it in another form",
            ) from fault


def _columns(table: Table) -> dict[str, Limit]:
    """Return each limit once, by its column."""
    return {limit.column: limit for limit in table.values()}


#: What sacctmgr shows of a QOS that nobody set.
_DEFAULTS: Final = {"GraceTime": "00:00:00", "Priority": "0", "UsageFactor": "1.000000"}


def _limits(columns: Mapping[str, Limit], values: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for limit, value in zip(columns.values(), values, strict=True):
        if value and value != _DEFAULTS.get(limit.name):
            found[limit.name] = slurm_limits.canonical(limit, value)
    return FrozenDict(sorted(found.items()))


def _cleared(table: Table, gone: Mapping[str, str]) -> dict[str, str]:
    return {name: slurm_limits.cleared(table[name.lower()], value) for name, value in gone.items()}


def _settings(each: Association, there: Association | None) -> dict[str, str]:
    """Return what is to be set of an association, but for names of qualities of service and of accounts."""
    described = not each.user and each.is_described
    settings: dict[str, str] = {"Description": each.description or each.account} if described else {}
    settings["Fairshare"] = str(each.shares)
    if there is not None:
        gone = {name: value for name, value in there.limits.items() if name not in each.limits}
        settings |= _cleared(slurm_limits.ASSOCIATION, gone)
    return settings | dict(each.limits)


def _line(each: Association, there: Association | None) -> str:
    """Return an entry of the file that `sacctmgr load` reads."""
    settings = _settings(each, there)
    if not each.user:
        texts = {**settings, "Organization": each.account}
        settings = {key: _quoted(text) if key in _TEXTS else text for key, text in texts.items()}
    elif each.is_default:
        settings["DefaultAccount"] = each.account  # else it is the first that they are in
    if each.qos:
        settings["QOS"] = _quoted(",".join(each.qos))
    if each.default_qos:
        settings["DefaultQOS"] = _quoted(each.default_qos)
    kind, name = ("User", each.user) if each.user else ("Account", each.account)
    return ":".join([f"{kind} - {_quoted(name)}", *(f"{key}={value}" for key, value in settings.items())])


def _quoted(text: str) -> str:
    one_line(text, "the text")
    if "'" in text:
        raise Refused(
            f"{text!r} has a quote, which sacctmgr's files cannot hold",
            words=text,
            where="sacctmgr",
            remedy="leave it out",
        )
    return f"'{text}'"


def _pair(first: str, second: str) -> tuple[str, str]:
    return first, second


def _words(written: str) -> tuple[str, ...]:
    return tuple(written.split(",")) if written else ()
