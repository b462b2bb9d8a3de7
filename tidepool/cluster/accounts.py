"""Accounts, their users, and qualities of service: who may use how much of a cluster, as slurmdbd keeps it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from tidepool.cluster import slurm_limits
from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.part import Part, Whole, read_name
from tidepool.cluster.slurm_limits import Table
from tidepool.cluster.users import UserName

#: Slurm's own account, which is above all others.
ROOT_ACCOUNT: Final = "root"

_ACCOUNT: Final = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,62}")
_WORDS: Final = re.compile(r"[^\x00-\x1f|\"'\\]{1,255}")


def account_name(name: str) -> str:
    """Return an account's name; raises ValueError with what it can be. Slurm keeps it in small letters."""
    if not _ACCOUNT.fullmatch(name):
        raise ValueError("an account's name is small letters, digits, '_', '.' or '-', at most 63")
    if name == ROOT_ACCOUNT:
        raise ValueError("root is Slurm's own account, above all others; leave it out, or take another name")
    return name


def _qos_name(name: str) -> str:
    if not _ACCOUNT.fullmatch(name):
        raise ValueError(
            "the name of a quality of service is small letters, digits, '_', '.' or '-', at most 63"
        )
    return name


def _description(text: str) -> str:
    if not _WORDS.fullmatch(text):
        raise ValueError("write 1 to 255 characters on one line, without quotes, '|' or '\\'")
    return text


def _limits(table: Table) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError("write limits by their names in Slurm: {GrpTRES: cpu=64, MaxJobs: 10}")
        for key, each in value.items():
            if isinstance(each, bool) or not isinstance(each, str | int | float):
                raise ValueError(f"{key}: write one number or text")
        return slurm_limits.read_limits(table, {str(key): each for key, each in value.items()})

    return read


QosName = Annotated[str, AfterValidator(_qos_name)]
Limits = Annotated[dict[str, str], BeforeValidator(_limits(slurm_limits.ASSOCIATION)), AfterValidator(frozen)]
QosLimits = Annotated[dict[str, str], BeforeValidator(_limits(slurm_limits.QOS)), AfterValidator(frozen)]


class Qos(Part):
    """A quality of service, which jobs ask for with `--qos`."""

    name: QosName = Field(description="What `sbatch --qos` says. `normal` is Slurm's own, and there always.")
    description: Annotated[str, AfterValidator(_description)] | None = Field(
        default=None, description="A line for people; by default its name."
    )
    preempts: tuple[QosName, ...] = Field(
        default=(), description="Qualities of service whose jobs make room for its own. Slurm's Preempt."
    )
    preempt_mode: Literal["cluster", "cancel", "requeue", "suspend"] = Field(
        default="cluster", description="What becomes of its own jobs that make room. Slurm's PreemptMode."
    )
    flags: tuple[
        Literal[
            "DenyOnLimit", "EnforceUsageThreshold", "NoDecay", "NoReserve", "OverPartQOS", "PartitionMaxNodes",
            "PartitionMinNodes", "PartitionTimeLimit", "RequiresReservation", "UsageFactorSafe",
        ],
        ...,
    ] = Field(default=(), description="Slurm's Flags of a QOS.")  # fmt: skip
    limits: QosLimits = Field(
        default_factory=FrozenDict,
        description="Slurm's limits and factors of a QOS by their names: `{Priority: 100, MaxTRESPerUser: cpu=64}`.",
    )


class AccountUser(Part):
    """A user in an account."""

    name: UserName = Field(description="The name by which they log in.")
    shares: Whole = Field(
        default=1, ge=0, description="Their part of the account's fair share. Slurm's Fairshare."
    )
    limits: Limits = Field(
        default_factory=FrozenDict, description="Their own limits, by their names in Slurm."
    )
    default: bool = Field(
        default=False,
        description="Whether jobs that name no account are this one's; by default those of the first account that names them.",
    )


class Budget(Part):
    """A budget of an account and all below it, for a calendar month in UTC. Jobs that run when it is spent go on."""

    usd_per_month: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="In US dollars, by the prices of the machines that its jobs have, or their parts of them.",
    )
    node_hours_per_month: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="In hours of nodes as Slurm counts them: a job has each of its nodes whole, also one that it shares.",
    )


class Account(Part):
    """An account, and who may use it."""

    name: Annotated[str, AfterValidator(account_name)] = Field(description="What `sbatch -A` says.")
    parent: Annotated[str, AfterValidator(account_name)] | None = Field(
        default=None, description="The account that it is a part of; by default none."
    )
    description: Annotated[str, AfterValidator(_description)] | None = Field(
        default=None, description="A line for people; by default its name."
    )
    shares: Whole = Field(
        default=1,
        ge=0,
        description="Its part of the fair share, beside those of the same parent. Slurm's Fairshare.",
    )
    limits: Limits = Field(
        default_factory=FrozenDict,
        description="Limits of it and all below it, by their names in Slurm: `{GrpTRES: cpu=512, MaxJobs: 10}`.",
    )
    budget: Budget | None = Field(
        default=None,
        description="What it and all below it may use in a month; none by default. When it is spent no job of theirs begins.",
    )
    qos: tuple[QosName, ...] = Field(
        default=(), description="Qualities of service that its jobs may ask for; by default its parent's."
    )
    default_qos: QosName | None = Field(
        default=None, description="That of jobs that ask for none; one of `qos`."
    )
    users: tuple[Annotated[AccountUser, BeforeValidator(read_name)], ...] = Field(
        default=(), description="Who may use it: names, or more details as below."
    )


def default_accounts(accounts: Sequence[Account]) -> Mapping[str, str]:
    """Return each user's default account: the one that says so, else the first that names them."""
    found: dict[str, str] = {}
    for account, user in _members(accounts):
        found.setdefault(user.name, account.name)
    return found | {user.name: account.name for account, user in _members(accounts) if user.default}


def _members(accounts: Iterable[Account]) -> Iterator[tuple[Account, AccountUser]]:
    return ((account, user) for account in accounts for user in account.users)
