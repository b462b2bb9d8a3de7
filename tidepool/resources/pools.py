"""Converged pools: the role that each of their machines has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pulumi
from pulumi import Input, Output


class Role(pulumi.CustomResource):
    """What a machine of a pool serves: Slurm or Kubernetes.

    Another ``role`` is a conversion, in place: what runs there is waited for until ``deadlineS``, then `atDeadline`
    decides; or it goes as an order in the journal of conversions says. It fails where the machine stays what it was, with
    the reason. Deleting it takes either role away, and is refused while jobs or pods run there.
    """

    node: Output[str]
    #: That which the machine has: of a conversion that another process ordered, the one that was ordered.
    role: Output[Literal["slurm", "kubernetes"]]

    def __init__(
        self,
        resource_name: str,
        *,
        node: Input[str],
        pool: Input[str],
        role: Input[Literal["slurm", "kubernetes"]],
        machine: Input[Mapping[str, Any]],
        controller: Input[Mapping[str, Any]],
        access: Input[str],
        boots: Input[Mapping[str, Input[str]]],
        pod_subnet: Input[str],
        deadline_s: Input[int],
        at_deadline: Input[Literal["stop", "force"]],
        slots: Input[str],
        labels: Input[Mapping[str, str]] | None = None,
        slurmctld: Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Name what it needs.

        ``machine`` and ``controller`` are connections, ``access`` the name of an `Access`, ``slots`` the id of the pool's
        `Slots`. ``boots`` are, by role, the names of the `Boot` whose files the machine is given with it. ``labels`` are those
        of its Kubernetes node, beside Tidepool's own. ``slurmctld`` is the digest of the `Configuration` by which the machine runs
        slurmctld while it serves Slurm; with another one it is started again where it ended on purpose.
        """
        inputs = {
            "node": node,
            "pool": pool,
            "role": role,
            "machine": machine,
            "controller": controller,
            "access": access,
            "boots": boots,
            "podSubnet": pod_subnet,
            "labels": labels,
            "deadlineS": deadline_s,
            "atDeadline": at_deadline,
            "slots": slots,
            "slurmctld": slurmctld,
        }
        super().__init__("tidepool:pool:Role", resource_name, inputs, opts)
