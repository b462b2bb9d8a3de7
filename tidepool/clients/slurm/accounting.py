"""Accounting: clusters, accounts, users and QOS by sacctmgr, and finished jobs by sacct. They need slurmdbd."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from tidepool.clients.slurm.answer import judge
from tidepool.clients.slurm.commands import Commands
from tidepool.clients.slurm.errors import NotFound
from tidepool.clients.slurm.job import JobState
from tidepool.clients.slurm.quantities import moment, text, tres
from tidepool.clients.slurm.request import one_line, slurm_time

_Record = TypeVar("_Record")
#: sacctmgr's words, with which it ends with 1 where all is as it was asked to be.
_DONE_ALREADY: Final = (
    "Nothing new added",
    "already exists",
    "Already existing",
    "Nothing deleted",
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster in the database; its controller's address is empty where it never registered, or is not up."""

    name: str
    control_host: str
    control_port: int


@dataclass(frozen=True, slots=True)
class Account:
    """An account."""

    name: str
    organization: str
    description: str


@dataclass(frozen=True, slots=True)
class User:
    """A user of accounts. ``admin_level`` is None, Operator or Administrator, in Slurm's words."""

    name: str
    default_account: str
    admin_level: str


@dataclass(frozen=True, slots=True)
class Association:
    """A user (empty: the account itself) in an account of a cluster, with the limits that were set on it."""

    cluster: str
    account: str
    user: str
    parent: str
    shares: str
    group_tres: Mapping[str, str]
    max_jobs: int | None
    qos: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Qos:
    """A quality of service, with the limits that were set on it."""

    name: str
    priority: int
    group_tres: Mapping[str, str]
    max_tres_per_user: Mapping[str, str]
    max_jobs_per_user: int | None


class FinishedJob(NamedTuple):
    """A job in the database, finished or not; a requeued one has a record for each time that it ran.

    ``job_id`` is unique; ``array_id`` is as people write it (``17_3``). ``by_uid`` is who cancelled it.
    """

    job_id: int
    array_id: str
    state: JobState
    by_uid: int | None
    exit_code: int
    signal: int
    user: str
    account: str
    partition: str
    qos: str
    submit_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    elapsed_s: int
    nodelist: str
    nodes: int
    cpus: int
    tres_requested: Mapping[str, str]
    tres_alloc: Mapping[str, str]
    name: str


_FINISHED_FIELDS: Final = (
    "JobIDRaw,JobID,State,ExitCode,User,Account,Partition,QOS,Submit,Start,End,ElapsedRaw,NodeList,NNodes,NCPUS,"
    "ReqTRES,AllocTRES,JobName"
)


class Accounting:
    """The database of accounts and jobs, asked through Slurm's commands.

    Adding what is there and deleting what is not succeed: what was asked for holds. Every call raises `DatabaseDown`
    where slurmdbd does not answer.
    """

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def clusters(self) -> tuple[Cluster, ...]:
        """All clusters of the database."""
        return self._list(
            "cluster",
            "Cluster,ControlHost,ControlPort",
            lambda name, host, port: Cluster(name, host, int(port or 0)),
        )

    def accounts(self) -> tuple[Account, ...]:
        """All accounts."""
        # What people choose stands last, for it may hold the separator.
        return self._list("account", "Account,Org,Descr", Account)

    def users(self) -> tuple[User, ...]:
        """All users."""
        return self._list("user", "User,DefaultAccount,AdminLevel", User)

    def associations(self) -> tuple[Association, ...]:
        """List who may use which account, and within which limits."""
        return self._list(
            "association",
            "Cluster,Account,User,ParentName,Share,GrpTRES,MaxJobs,QOS",
            lambda cluster, account, user, parent, shares, group, jobs, qos: Association(
                cluster, account, user, parent, shares, tres(group), _number(jobs), _names(qos)
            ),
        )

    def qos(self) -> tuple[Qos, ...]:
        """All qualities of service."""
        return self._list(
            "qos",
            "Name,Priority,GrpTRES,MaxTRESPU,MaxJobsPU",
            lambda name, priority, group, per_user, jobs: Qos(
                name, int(priority or 0), tres(group), tres(per_user), _number(jobs)
            ),
        )

    def add_cluster(self, name: str) -> None:
        """Have a cluster in the database."""
        self._change("add", "cluster", name)

    def add_account(
        self, name: str, *, parent: str = "root", description: str = "", organization: str = ""
    ) -> None:
        """Have an account below ``parent``."""
        self._change(
            "add",
            "account",
            name,
            f"parent={parent}",
            f"description={description or name}",
            f"organization={organization or name}",
        )

    def add_user(self, name: str, account: str) -> None:
        """Have a user in ``account``, which becomes the default of one who had none."""
        self._change("add", "user", name, f"account={account}")

    def add_qos(self, name: str) -> None:
        """Have a quality of service, without limits."""
        self._change("add", "qos", name)

    def set_limits(self, entity: str, name: str, limits: Mapping[str, str]) -> None:
        """Set limits (GrpTRES, MaxJobs, Priority, ..., in Slurm's words; -1 takes one away) of an entity.

        ``entity`` is account, qos or user.

        Raises:
            NotFound: there is no such entity.
        """
        values = [one_line(f"{key}={value}", "the limit") for key, value in limits.items()]
        self._do(["modify", entity, "where", f"name={one_line(name, 'the name')}", "set", *values])

    def delete_account(self, name: str) -> None:
        """Have no such account."""
        self._change("delete", "account", name)

    def delete_user(self, name: str) -> None:
        """Have no such user."""
        self._change("delete", "user", name)

    def delete_qos(self, name: str) -> None:
        """Have no such quality of service."""
        self._change("delete", "qos", name)

    def jobs_since(self, since: datetime) -> tuple[FinishedJob, ...]:
        """The jobs of all users that were there at ``since`` or later, each time that they ran, without their steps."""
        mark = f"\x1e{secrets.token_urlsafe(9)}\x1e"
        argv = [
            "sacct",
            "--allusers",
            "--allocations",
            "--duplicates",
            "--parsable",
            f"--delimiter={mark}",
            f"--format={_FINISHED_FIELDS}",
            f"--starttime={slurm_time(since)}",
            "--endtime=now",
        ]
        answer = self._commands.ask(argv)
        *fields, end = answer.split(mark)
        width = _FINISHED_FIELDS.count(",") + 1
        if end != "\n" or len(fields) % width or fields[0] != "JobIDRaw":
            raise self._commands.malformed(argv, "the header is missing, or it is cut off")
        try:
            return tuple(
                _finished(fields[start : start + width]) for start in range(width, len(fields), width)
            )
        except (KeyError, ValueError) as fault:
            raise self._commands.malformed(argv, str(fault)) from fault

    def _list(self, entity: str, columns: str, make: Callable[..., _Record]) -> tuple[_Record, ...]:
        argv = ["sacctmgr", "--parsable2", "--readonly", "list", entity, f"format={columns}"]
        header, *lines = self._commands.ask(argv).splitlines() or [""]
        width = columns.count(",")
        if header.count("|") != width:
            raise self._commands.malformed(argv, "the header is missing")
        try:
            return tuple(make(*line.split("|", width)) for line in lines)
        except (TypeError, ValueError) as fault:
            raise self._commands.malformed(argv, str(fault)) from fault

    def _change(self, verb: str, entity: str, name: str, *values: str) -> None:
        one_line(name, "the name")
        self._do(
            [verb, entity, name if verb == "add" else f"name={name}", *(one_line(v, "it") for v in values)]
        )

    def _do(self, words: Sequence[str]) -> None:
        argv = ["sacctmgr", "--immediate", *words]
        completed = self._commands.run(argv)
        if "Nothing modified" in completed.stdout:
            raise NotFound(
                f"Slurm knows no such {words[1]}: {words[3]}",
                words="Nothing modified",
                where=f"sacctmgr {self._commands.transport.where}",
                remedy="add it first",
            )
        if not (completed.exit_code in {0, 1} and any(said in completed.stdout for said in _DONE_ALREADY)):
            judge(argv, completed, self._commands.transport.where)


def _finished(fields: Sequence[str]) -> FinishedJob:
    (
        job_id, array_id, state, exit_code, user, account, partition, qos,
        submit, start, end, elapsed, nodelist, nodes, cpus, requested, alloc, name,
    ) = fields  # fmt: skip
    # "CANCELLED by 1000" names who did it.
    word, _, uid = state.partition(" by ")
    code, _, signal = exit_code.partition(":")
    return FinishedJob(
        job_id=int(job_id),
        array_id=array_id,
        state=JobState(word.strip()),
        by_uid=int(uid) if uid else None,
        exit_code=int(code or 0),
        signal=int(signal or 0),
        user=user,
        account=account,
        partition=partition,
        qos=qos,
        submit_time=moment(submit),
        start_time=moment(start),
        end_time=moment(end),
        elapsed_s=int(elapsed or 0),
        nodelist="" if nodelist == "None assigned" else text(nodelist),
        nodes=int(nodes or 0),
        cpus=int(cpus or 0),
        tres_requested=tres(requested),
        tres_alloc=tres(alloc),
        name=name,
    )


def _number(written: str) -> int | None:
    return int(written) if written else None


def _names(written: str) -> tuple[str, ...]:
    return tuple(written.split(",")) if written else ()
