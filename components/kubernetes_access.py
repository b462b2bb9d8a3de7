"""KubernetesAccess: a way to a Kubernetes that is there already, by a person's kubeconfig."""

from __future__ import annotations

from pathlib import Path

import pulumi
from pulumi import Output

from tidepool import resources
from tidepool.cluster.names import KUBERNETES_ACCESS


class KubernetesAccess(pulumi.ComponentResource):
    """It has what `KubernetesControlPlane` has, of a Kubernetes that somebody else runs.

    The kubeconfig is read at each `up`, and what it leads to must answer, and allow all that Tidepool does.
    """

    #: Name of the access (`resources.Access`).
    access: Output[str]
    #: URL of the API server.
    server: Output[str]
    #: PEM, by which the API server is known; empty where its certificate is of an authority that all know.
    authority_certificate: Output[str]

    def __init__(
        self, name: str, stack: str, kubeconfig: Path, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Register it; ``stack`` is the name under which the data folder keeps it, ``kubeconfig`` an absolute path."""
        super().__init__("tidepool:components:KubernetesAccess", name, None, opts)
        made = resources.Access(
            KUBERNETES_ACCESS,
            stack=stack,
            access=KUBERNETES_ACCESS,
            path=str(kubeconfig),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.access, self.server = made.access, made.server
        self.authority_certificate = made.authorityCertificate
        self.register_outputs(
            {
                "access": self.access,
                "server": self.server,
                "authorityCertificate": self.authority_certificate,
            }
        )
