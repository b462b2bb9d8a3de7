"""Converged pools: the role that each of their machines has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pulumi import Input

from tidepool.resources.model import Field, Model, Resource, condition, given


class RoleModel(Model):
    """Properties of a `Role`.

    ``machine`` and ``controller`` are connections, ``access`` the name of an `Access`, ``slots`` the id of the pool's
    `Slots`. ``boots`` are, by role, the names of the `Boot` whose files the machine is given with it. ``labels`` are those
    of its Kubernetes node, beside Tidepool's own. ``slurmctld`` is the digest of the `Configuration` by which the machine runs
    slurmctld while it serves Slurm; with another one it is started again where it ended on purpose.
    """

    node: Field[str] = given(replaces=True)
    pool: Field[str] = given(replaces=True)
    #: That which the machine has: of a conversion that another process ordered, the one that was ordered.
    role: Field[Literal["slurm", "kubernetes"]] = given()
    machine: Field[Mapping[str, Any]] = given(replaces=True)
    controller: Field[Mapping[str, Any]] = given(replaces="known")
    access: Field[str] = given(replaces="known")
    boots: Field[Mapping[str, str], Mapping[str, Input[str]]] = given()
    pod_subnet: Field[str] = given()
    labels: Field[Mapping[str, str]] = given(default={})
    deadline_s: Field[int] = given(least=1)
    at_deadline: Field[Literal["stop", "force"]] = given()
    slots: Field[str] = given(replaces=True)
    slurmctld: Field[str] = given(default="")
    #: What does not serve.
    state: Field[str] = condition("serving")

    @property
    def stack(self) -> str:
        """The stack that it belongs to."""
        return str(self.machine.get("stack", ""))


class Role(Resource, RoleModel, token="tidepool:pool:Role"):
    """The role of a pool's machine, Slurm's or Kubernetes'.

    Another ``role`` is a conversion, in place: what runs there is waited for until ``deadlineS``, then `atDeadline`
    decides; or it goes as an order in the journal of conversions says. It fails where the machine stays what it was, with
    the reason. Deleting it takes either role away, and is refused while jobs or pods run there.
    """
