"""Two machines of the infrastructure that the spec in the file WANTED names."""

import json
import os
from ipaddress import IPv4Address
from pathlib import Path

import pulumi

from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.contract import MachineOrder
from tidepool.infrastructures.registry import infrastructures_of

spec = ClusterSpec.model_validate(json.loads(Path(os.environ["WANTED"]).read_text())["spec"])
infrastructure = infrastructures_of(spec, pulumi.get_stack())["toy"]
network = infrastructure.network("net", spec.network)
for number in (1, 2):
    address, shape = IPv4Address(f"10.91.1.{number}"), Shape(cpus=1, memory_mib=64)
    order = MachineOrder(f"cpu-{number}", network, address, shape, "sha", "cpu")
    pulumi.export(f"cpu-{number}", infrastructure.machine(order).machine_id)
