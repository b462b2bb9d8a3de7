"""Kubernetes: how it is reached, and a control plane of a cluster's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidepool.resources.model import Field, Model, Resource, condition, derived, given, output


class AccessModel(Model):
    """Properties of an `Access`."""

    stack: Field[str] = given(replaces=True)
    access: Field[str] = given(replaces=True)
    kubeconfig: Field[str] = given(default="")
    path: Field[str] = given(default="")
    machine: Field[Mapping[str, Any]] = given(default={})
    checked: Field[bool] = given(default=True, stored=True)
    #: Of a person's kubeconfig.
    digest: Field[str] = derived()
    #: Which rights it lacks.
    state: Field[str] = condition("allowed")
    #: URL of the API server.
    server: Field[str] = output()
    #: PEM, of the API server's authority; empty where the kubeconfig names none.
    authority_certificate: Field[str] = output()


class Access(Resource, AccessModel, token="tidepool:kubernetes:Access"):
    """A way to a Kubernetes: a kubeconfig, kept in the data folder for root alone, that other resources name.

    ``kubeconfig`` is its text, and secret; or ``path`` is the file of a person's, which is taken over as it is at each
    `up`. ``machine`` is the connection of the machine that the API server is on, where only that reaches it. With
    ``checked`` the API must answer, and allow all that Tidepool does, before anything else is made.
    """


class ControlPlaneModel(Model):
    """Properties of a `ControlPlane`."""

    stack: Field[str] = given(replaces=True)
    access: Field[str] = given()
    machine: Field[Mapping[str, Any]] = given(replaces=True)
    boot: Field[str] = given()
    digest: Field[str] = given()
    #: What does not work of it.
    state: Field[str] = condition("working")
    #: Of the API server: ``v1.36.3``.
    version: Field[str] = output()


class ControlPlane(Resource, ControlPlaneModel, token="tidepool:kubernetes:ControlPlane"):
    """The control plane on ``machine``: it is there while its API answers, and its controllers and scheduler work.

    Creating it waits for that, and makes the first objects: who may join, who may not, and what Tidepool may do.
    ``access`` names the `Access` of an administrator, ``boot`` the machine's `Boot`; ``digest`` tells what is in that from
    all else: with another one, the machine boots again.
    """
