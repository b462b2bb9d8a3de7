"""Declarations of the resources of slurmdbd: accounts, their users, qualities of service.

``controller`` is the connection of a machine with Slurm's commands; ``cluster`` is Slurm's ClusterName, whose associations
they are. Limits are by Slurm's names, in the form of `tidepool.cluster.slurm_limits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidepool.resources.model import Field, Model, Resource, given, to_wire


class QosModel(Model):
    """Properties of a `Qos`."""

    controller: Field[Mapping[str, Any]] = given()
    qos: Field[str] = given(replaces=True)
    #: Whose it is, where slurmdbd is another cluster's; empty in that one.
    cluster: Field[str] = given(default="", replaces=True)
    description: Field[str] = given(default="")
    preempts: Field[Sequence[str]] = given(default=(), stored=True)
    preempt_mode: Field[str] = given(default="cluster", stored=True)
    flags: Field[Sequence[str]] = given(default=(), stored=True)
    limits: Field[Mapping[str, str]] = given(default={}, stored=True)


class Qos(Resource, QosModel, token="tidepool:slurm:Qos", delete_first=False):
    """A quality of service, of all clusters that share the database.

    One that is there already is taken, and made what is asked for, unless it is another cluster's; what somebody changed with sacctmgr is shown by a refresh
    and mended by the next `up`.
    """


class AccountModel(Model):
    """Properties of an `Account`."""

    controller: Field[Mapping[str, Any]] = given()
    cluster: Field[str] = given(replaces=True)
    account: Field[str] = given(replaces=True)
    parent: Field[str] = given(default="", stored=True)
    description: Field[str] = given(default="")
    shares: Field[int] = given(default=1, stored=True)
    qos: Field[Sequence[str]] = given(default=(), stored=True)
    default_qos: Field[str] = given(default="", stored=True)
    limits: Field[Mapping[str, str]] = given(default={}, stored=True)
    #: What it and all below it may use in a month, `usdPerMonth` and `nodeHoursPerMonth`. The scaler holds to it: while it
    #: is spent, Slurm's GrpJobs of the account is 0, which is no difference to ``limits``.
    budget: Field[Mapping[str, float]] = given(default={})
    #: Who may use it, and no others, by name; each as `account_user` gives it. None: that is not this resource's affair.
    users: Field[Mapping[str, Any] | None] = given(default=None)


def account_user(
    shares: int = 1, limits: Mapping[str, str] | None = None, default: bool = False
) -> dict[str, Any]:
    """A user of an `Account`: their shares and limits there, and whether jobs of theirs that name no account are its."""
    return {
        **({"shares": shares} if shares != 1 else {}),
        **({"limits": dict(limits)} if limits else {}),
        **({"default": True} if default else {}),
    }


class Account(Resource, AccountModel, token="tidepool:slurm:Account"):
    """An account of the cluster, below ``parent`` (empty: Slurm's own `root`).

    A user whom somebody added by hand is shown by a refresh, and taken away by the next `up`. Neither a user nor the account
    goes while jobs of theirs run, and it stays while accounts or users are below it that the stack knows nothing of. What
    ran in it stays in the database.
    """


class AccountsModel(Model):
    """Properties of `Accounts`."""

    controller: Field[Mapping[str, Any]] = given()
    cluster: Field[str] = given(replaces=True)
    #: By name, each as `account_of_tree` gives it.
    accounts: Field[Mapping[str, Mapping[str, Any]]] = given()


def account_of_tree(**settings: Any) -> dict[str, Any]:
    """An account of `Accounts`: the properties of an `Account` that are not as by default, and not shared by all."""
    declared = {name: AccountModel.properties[name] for name in settings}
    return {
        each.wire: to_wire(settings[name])
        for name, each in declared.items()
        if to_wire(settings[name]) != to_wire(each.default)
    }


class Accounts(Resource, AccountsModel, token="tidepool:slurm:Accounts"):
    """All accounts of a cluster that the stack has, written as one: each costs an `up` less than an `Account` does.

    Of each holds what holds of an `Account`; one that slurmdbd refuses holds up no other.
    """


class AssociationModel(Model):
    """Properties of an `Association`."""

    controller: Field[Mapping[str, Any]] = given()
    cluster: Field[str] = given(replaces=True)
    account: Field[str] = given(replaces=True)
    user: Field[str] = given(replaces=True)
    #: Whether jobs of the user that name no account are this one's.
    default: Field[bool] = given(default=False, stored=True)
    shares: Field[int] = given(default=1, stored=True)
    limits: Field[Mapping[str, str]] = given(default={}, stored=True)


class Association(Resource, AssociationModel, token="tidepool:slurm:Association"):
    """A user in an account that names no users itself: they may submit jobs to it.

    Deleting it is refused while jobs of theirs run there.
    """
