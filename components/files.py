"""Files: quotas of /home, and the rule by which scratch is wiped, as `up` brings them to a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from tidepool import resources
from tidepool.cluster.files import HOME, MIB
from tidepool.cluster.ganesha import STORE
from tidepool.components.slurm_controller import SlurmController


class Files(pulumi.ComponentResource):
    """Quotas of /home, and the rule by which scratch is wiped, as the controller's spec says.

    Args:
        name: the cluster's.
        controller: the cluster's.
        opts: Pulumi's.
    """

    def __init__(
        self, name: str, *, controller: SlurmController, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tidepool:components:Files", name, None, controller.locations.options(opts))
        server = controller.file_server
        resources.FilePolicy(
            name,
            controller=controller.connection,
            home=HOME,
            server={} if server is None else server.connection,
            served_from="" if server is None else f"{STORE}{HOME}",
            **file_outputs(controller),
            # Homes are there once machines run. With a cluster that goes, so does the service; homes that are kept keep their quotas.
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[controller.configuration, controller.users],
                deleted_with=controller.configuration,
            ),
        )
        self.register_outputs({})


def file_outputs(controller: SlurmController) -> Mapping[str, Any]:
    """Return what the verbs `quota` and `scratch` need to know, as an output of the stack."""
    spec = controller.spec
    quotas = {
        user.name: user.quota_mib * MIB for user in controller.known_users.users if user.quota_mib is not None
    }
    scratch = {} if spec.scratch is None else spec.scratch.model_dump(mode="json")
    return {
        "scope": controller.locations.stack,
        "quota": (spec.home.quota_mib or 0) * MIB,
        "quotas": quotas,
        "scratch": scratch,
    }
