"""AccountTree: accounts of a cluster, their users, and qualities of service, in slurmdbd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from tidepool import resources
from tidepool.cluster.accounts import Account, default_accounts
from tidepool.components.slurm_controller import SlurmController


class AccountTree(pulumi.ComponentResource):
    """The accounts that the controller's spec has, with their users, in one `Accounts`; and a `Qos` for each quality of service.

    They are deleted by themselves where they leave the spec; with the cluster they stay in its database, as what ran does.

    Args:
        name: the cluster's.
        controller: the cluster's; its spec has accounting.
        opts: Pulumi's.
    """

    def __init__(
        self, name: str, *, controller: SlurmController, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tidepool:components:AccountTree", name, None, controller.locations.options(opts))
        spec, connection = controller.spec, controller.connection
        # A cluster is in the database once its slurmctld has told it of itself, and slurmctld knows users by their numbers.
        mine = pulumi.ResourceOptions(
            parent=self,
            depends_on=[controller.configuration, controller.users],
            deleted_with=controller.accounting_machine,
        )
        qualities = [
            resources.Qos(
                each.name,
                controller=connection,
                qos=each.name,
                cluster=spec.name if spec.controller.own_accounting is None else "",
                description=each.description or "",
                preempts=list(each.preempts),
                preempt_mode=each.preempt_mode,
                flags=list(each.flags),
                limits=dict(each.limits),
                opts=mine,
            )
            for each in spec.qos
        ]
        defaults = default_accounts(spec.accounts)
        if spec.accounts:
            resources.Accounts(
                name,
                controller=connection,
                cluster=spec.name,
                accounts={each.name: _account(each, defaults) for each in spec.accounts},
                opts=pulumi.ResourceOptions.merge(mine, pulumi.ResourceOptions(depends_on=qualities)),
            )
        self.register_outputs({})


def _account(account: Account, defaults: Mapping[str, str]) -> dict[str, Any]:
    return resources.account_of_tree(
        parent=account.parent or "",
        description=account.description or "",
        shares=account.shares,
        qos=account.qos,
        default_qos=account.default_qos or "",
        limits=account.limits,
        budget=_budget(account),
        users={
            user.name: resources.account_user(user.shares, user.limits, defaults[user.name] == account.name)
            for user in account.users
        },
    )


def _budget(account: Account) -> dict[str, float]:
    if account.budget is None:
        return {}
    said = {
        "usdPerMonth": account.budget.usd_per_month,
        "nodeHoursPerMonth": account.budget.node_hours_per_month,
    }
    return {name: value for name, value in said.items() if value is not None}
