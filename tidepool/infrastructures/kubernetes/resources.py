"""Fleets on Kubernetes: whether a place has what is asked of it, and machines there that answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input, Output


class KubernetesPlace(pulumi.CustomResource):
    """A Kubernetes that has all that a stack asks of it: it is asked in previews, and all that is wrong is told at once.

    ``kubeconfig`` is the path of a file, ``path`` where the place stands in the spec. ``demands`` are maps as
    `tidepool.infrastructures.kubernetes.demand.Demand` has them, in camelCase, names as a hostlist; ``uses`` says what the stack makes
    there: ``pods``, ``machines``, ``claims``, ``multus``. Nothing is made; whatever is depends on this.
    """

    def __init__(
        self,
        resource_name: str,
        *,
        stack: Input[str],
        kubeconfig: Input[str],
        path: Input[str],
        namespace: Input[str],
        own_namespace: Input[bool],
        uses: Input[Sequence[str]],
        demands: Input[Sequence[Mapping[str, Any]]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "stack": stack,
            "kubeconfig": kubeconfig,
            "path": path,
            "namespace": namespace,
            "ownNamespace": own_namespace,
            "uses": uses,
            "demands": demands,
        }
        super().__init__("tidepool:kubernetes:Place", resource_name, inputs, opts)


class KubernetesMachine(pulumi.CustomResource):
    """A pod, or a Machine of Cluster API, that answers by SSH: creating it waits for that, and tells why it does not.

    ``object`` is what Kubernetes knows it by: another one is another machine at the same address. ``access`` is the id of
    the `SshAccess`. With ``room_s`` it fails for want of room when nothing had room for it for so long.
    """

    connection: Output[Mapping[str, Any]]

    def __init__(
        self,
        resource_name: str,
        *,
        stack: Input[str],
        kubeconfig: Input[str],
        namespace: Input[str],
        kind: Input[str],
        object: Input[str],
        address: Input[str],
        access: Input[str],
        room_s: Input[int],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "stack": stack,
            "kubeconfig": kubeconfig,
            "namespace": namespace,
            "kind": kind,
            "machine": resource_name,
            "object": object,
            "address": address,
            "access": access,
            "roomS": room_s,
            "connection": None,
        }
        super().__init__("tidepool:kubernetes:Machine", resource_name, inputs, opts)
