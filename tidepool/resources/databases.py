"""Declarations of a slurmdbd that clusters share: the part of the cluster that has it, and that of each which uses it.

``cluster`` is Slurm's ClusterName.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidepool.resources.model import Field, Model, Resource, given


class DatabaseServerModel(Model):
    """Properties of a `DatabaseServer`."""

    #: The connection of slurmdbd's machine.
    server: Field[Mapping[str, Any]] = given()
    cluster: Field[str] = given(replaces=True)
    #: The networks of the others that may use it, by their names.
    shared_with: Field[Mapping[str, str]] = given(stored=True)


class DatabaseServer(Resource, DatabaseServerModel, token="tidepool:slurm:DatabaseServer"):
    """The slurmdbd of this cluster, which others use: it does not go, nor is one of them shut out, while they are up."""


class DatabaseClientModel(Model):
    """Properties of a `DatabaseClient`."""

    #: The connection of slurmctld's machine.
    controller: Field[Mapping[str, Any]] = given()
    cluster: Field[str] = given(replaces=True)
    #: The cluster's own network; by its addresses it is told from another cluster of its name.
    network: Field[str] = given()
    host: Field[str] = given()
    port: Field[int] = given()
    #: In base64.
    key: Field[str] = given(secret=True)
    #: Names of its qualities of service, of which slurmdbd has one for all clusters.
    qos: Field[Sequence[str]] = given(default=())


class DatabaseClient(Resource, DatabaseClientModel, token="tidepool:slurm:DatabaseClient"):
    """The use of another cluster's slurmdbd: it is asked before slurmctld begins, and where it can be, in previews."""
