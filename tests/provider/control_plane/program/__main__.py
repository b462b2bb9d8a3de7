"""A control plane of components, and nothing of Slurm; what the tests change of it comes as JSON in the file $WANTED."""

import json
import os
from pathlib import Path

import pulumi

from tidepool.cluster.spec_reading import read_spec
from tidepool.components import KubernetesControlPlane, register_locations

wanted = json.loads(Path(os.environ["WANTED"]).read_text())
checkout = Path(os.environ["CHECKOUT"])
more = {"kubernetes": wanted.get("kubernetes", {}), "image": wanted.get("image", "debian-12")}
spec = read_spec({**wanted["spec"], **more})

made = KubernetesControlPlane(
    spec.name,
    locations=register_locations(spec, folder=checkout),
    toolchain=wanted["toolchain"],
    api_server_flags=wanted.get("flags", []),
    timeout_s=wanted.get("timeout", 60),
)
for name in ("access", "admin_access", "server", "authority_certificate", "connection"):
    pulumi.export(name, getattr(made, name))
