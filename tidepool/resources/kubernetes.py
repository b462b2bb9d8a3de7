"""Kubernetes: how it is reached, and a control plane of a cluster's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import Input, Output


class Access(pulumi.CustomResource):
    """A way to a Kubernetes: a kubeconfig, kept in the data folder for root alone, that other resources name.

    ``kubeconfig`` is its text, and secret; or ``path`` is the file of a person's, which is taken over as it is at each
    `up`. ``machine`` is the connection of the machine that the API server is on, where only that reaches it. With
    ``checked`` the API must answer, and allow all that Tidepool does, before anything else is made.
    """

    access: Output[str]
    #: URL of the API server.
    server: Output[str]
    #: PEM, of the API server's authority; empty where the kubeconfig names none.
    authorityCertificate: Output[str]  # noqa: N815 (the name in the state)

    def __init__(
        self,
        resource_name: str,
        *,
        stack: Input[str],
        access: Input[str],
        kubeconfig: Input[str] | None = None,
        path: Input[str] | None = None,
        machine: Input[Mapping[str, Any]] | None = None,
        checked: Input[bool] = True,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "stack": stack,
            "access": access,
            "kubeconfig": kubeconfig,
            "path": path,
            "machine": machine,
            "checked": checked,
            "server": None,
            "authorityCertificate": None,
        }
        super().__init__("tidepool:kubernetes:Access", resource_name, inputs, opts)


class ControlPlane(pulumi.CustomResource):
    """The control plane on ``machine``: it is there while its API answers, and its controllers and scheduler work.

    Creating it waits for that, and makes the first objects: who may join, who may not, and what Tidepool may do.
    ``access`` names the `Access` of an administrator, ``boot`` the machine's `Boot`; ``digest`` tells what is in that from
    all else: with another one, the machine boots again.
    """

    #: Of the API server: ``v1.36.3``.
    version: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        stack: Input[str],
        access: Input[str],
        machine: Input[Mapping[str, Any]],
        boot: Input[str],
        digest: Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "stack": stack,
            "access": access,
            "machine": machine,
            "boot": boot,
            "digest": digest,
            "version": None,
        }
        super().__init__("tidepool:kubernetes:ControlPlane", resource_name, inputs, opts)
