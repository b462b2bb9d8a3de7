"""Machines that are reached by SSH, whoever made them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidepool.resources.model import Field, Model, Resource, given, output


class SshAccessModel(Model):
    """Properties of an `SshAccess`."""

    stack: Field[str] = given(replaces=True)
    private_key: Field[str] = given()
    host_key: Field[str] = given()
    addresses: Field[str] = given()
    port: Field[int] = given(default=22, least=1)


class SshAccess(Resource, SshAccessModel, token="tidepool:ssh:Access"):
    """The key by which a stack's machines are reached, and theirs: kept in the data folder for root alone.

    ``private_key`` is secret; ``host_key`` is the public key that all of ``addresses`` (a hostlist) show, and no other is
    taken from them.
    """


class SshMachineModel(Model):
    """Properties of an `SshMachine`."""

    machine: Field[str] = given(replaces=True)
    stack: Field[str] = given(replaces=True)
    address: Field[str] = given(replaces=True)
    user: Field[str] = given(replaces=True)
    access: Field[str] = given()
    port: Field[int] = given(default=22, replaces=True, least=1)
    #: As `tidepool.infrastructures.connection` reads it.
    connection: Field[Mapping[str, Any]] = output(default={})


class SshMachine(Resource, SshMachineModel, token="tidepool:ssh:Machine"):
    """A machine that answers by SSH: creating it waits for that.

    ``machine`` is what made it knows it by: another one is another machine at the same address. ``access`` is the id of
    the `SshAccess`.
    """
