"""Hosts of a Nomad that are machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidepool.resources.model import Field, Model, Resource, condition, given, output


class NomadMachineModel(Model):
    """Properties of a `NomadMachine`."""

    #: How Nomad is reached: ``address``, ``region``, ``tokenFile``, ``caFile``.
    api: Field[Mapping[str, str]] = given()
    namespace: Field[str] = given(replaces=True)
    stack: Field[str] = given(replaces=True)
    machine: Field[str] = given(replaces=True)
    fleet: Field[str] = given(replaces=True)
    address: Field[str] = given(replaces=True)
    constraints: Field[Sequence[str]] = given(replaces=True)
    drivers: Field[Sequence[str]] = given()
    datacenters: Field[Sequence[str]] = given(replaces=True)
    node_pool: Field[str] = given(replaces=True)
    jobs: Field[Sequence[str]] = given()
    #: How its host is.
    state: Field[str] = condition("running")
    #: The name of its host.
    host: Field[str] = output()


class NomadMachine(Resource, NomadMachineModel, token="tidepool:nomad:Machine"):
    """A host that is a machine: it has the machine's name, fleet and address in its metadata, and ``jobs`` run on it.

    The host is any free one that is as ``constraints`` (``${meta.rack} = r1``) want it, and stays the machine's until
    that is deleted.
    """


class RollOutModel(Model):
    """Properties of a `RollOut`."""

    #: How Nomad is reached, as of a `NomadMachine`.
    api: Field[Mapping[str, str]] = given()
    namespace: Field[str] = given(replaces=True)
    job: Field[str] = given(replaces=True)
    #: Another one is another specification of the job.
    version: Field[str] = given()
    #: How the last roll-out ended.
    state: Field[str] = condition("well")


class RollOut(Resource, RollOutModel, token="tidepool:nomad:RollOut"):
    """The last roll-out of a system job, looked at before the job's next version is registered: one that failed is told."""
