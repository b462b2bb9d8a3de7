"""A control plane of components, and nothing of Slurm; what the tests change of it comes as JSON in the file $WANTED."""

import json
import os
from pathlib import Path

import pulumi

from tidepool.cluster.pool import Kubernetes
from tidepool.cluster.spec_reading import read_spec
from tidepool.components import GoldenImage, KubernetesControlPlane, KubernetesControlPlaneArgs, Local

wanted = json.loads(Path(os.environ["WANTED"]).read_text())
checkout = Path(os.environ["CHECKOUT"])
stack = pulumi.get_stack()
spec = read_spec(wanted["spec"])

infrastructure = Local(stack)
made = KubernetesControlPlane(
    spec.name,
    KubernetesControlPlaneArgs(
        stack=stack,
        spec=spec,
        kubernetes=Kubernetes.model_validate(wanted.get("kubernetes", {})),
        infrastructure=infrastructure,
        network=infrastructure.network("net", spec.network),
        image=GoldenImage(
            "image",
            recipe=checkout / "images" / wanted.get("image", "debian-12"),
            playbooks=checkout / "playbooks",
        ).digest,
        toolchain=wanted["toolchain"],
        api_server_flags=wanted.get("flags", []),
        timeout_s=wanted.get("timeout", 60),
    ),
)
for name in ("access", "admin_access", "server", "authority_certificate", "connection"):
    pulumi.export(name, getattr(made, name))
