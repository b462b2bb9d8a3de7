"""Machines on Kubernetes that answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tidepool.resources.model import Field, Model, Resource, condition, given, output


class KubernetesMachineModel(Model):
    """Properties of a `KubernetesMachine`."""

    stack: Field[str] = given(replaces=True)
    #: The path of a file.
    kubeconfig: Field[str] = given()
    namespace: Field[str] = given(replaces=True)
    kind: Field[Literal["pods", "machines"], str] = given(replaces=True)
    machine: Field[str] = given(replaces=True)
    object: Field[str] = given(replaces=True)
    address: Field[str] = given(replaces=True)
    access: Field[str] = given()
    room_s: Field[int] = given(least=1)
    state: Field[str] = condition("answers")
    #: As `tidepool.infrastructures.connection` reads it.
    connection: Field[Mapping[str, Any]] = output(default={})


class KubernetesMachine(Resource, KubernetesMachineModel, token="tidepool:kubernetes:Machine"):
    """A pod, or a Machine of Cluster API, that answers by SSH: creating it waits for that, and tells why it does not.

    ``object`` is what Kubernetes knows it by: another one is another machine at the same address. ``access`` is the id of
    the `SshAccess`. A Machine that somebody else deletes stays, from then on, until this is taken away. With ``room_s`` it fails for want of room when nothing had room for it for so long.
    """
