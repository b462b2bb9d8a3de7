"""Declaration of the users of a cluster as a resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi import Input

from tidepool.resources.model import Field, Model, Resource, given


class UsersModel(Model):
    """Properties of `Users`."""

    controller: Field[Mapping[str, Any]] = given()
    #: Machines that they log in to.
    logins: Field[Sequence[Mapping[str, Any]], Sequence[Input[Mapping[str, Any]]]] = given(default=())
    #: By name, each as `tidepool.cluster.user_files` has it.
    users: Field[Mapping[str, Any]] = given()
    #: Groups that are no user's own: numbers by name.
    groups: Field[Mapping[str, int]] = given(default={}, stored=True)


class Users(Resource, UsersModel, token="tidepool:slurm:Users"):
    """The users of a cluster: all machines that have its /home know them, and let them in by their keys.

    ``controller`` is the connection of a machine that has /home. Who comes gets a home; who goes loses keys, sessions and
    jobs within seconds, and their home stays. While they have jobs, it is refused with the jobs' ids, in previews as well,
    unless TIDEPOOL_CANCEL_JOBS_OF names them.
    """
