"""One stack is one cluster: the spec in Pulumi.<stack>.yaml becomes components, and those the stack's outputs."""

from pathlib import Path

import pulumi

from tidepool import components
from tidepool.cluster.node_set import node_set
from tidepool.cluster.spec_reading import SpecError, read_spec

stack, here = pulumi.get_stack(), Path(__file__).parent
try:
    spec = read_spec(pulumi.Config().require_object("spec"))
except SpecError as mistakes:
    raise pulumi.RunError(f"Pulumi.{stack}.yaml: {mistakes}") from None
# Nodes that the scaler asked for stay, whoever runs this.
last = components.last_outputs().get("fleets", {})

infrastructure = components.infrastructure_of(spec, stack)
network = infrastructure.network("net", spec.network)
images = {
    name: components.GoldenImage(name, recipe=here / "images" / name, playbooks=here / "playbooks").digest
    for name in spec.images
}
cluster = components.SlurmControllerArgs(spec, infrastructure, network, images[spec.controller_image])
controller = components.SlurmController(spec.name, cluster)
fleets = {}
for fleet in spec.fleets:
    nodes = node_set(fleet, last=last.get(fleet.name))
    image = images[spec.fleet_image(fleet, fleet.infrastructures[0])]
    args = components.ComputeFleetArgs(fleet, nodes, controller, infrastructure, network, image)
    fleets[fleet.name] = components.ComputeFleet(fleet.name, args)

pulumi.export("cluster", spec.name)
pulumi.export("network", str(spec.network))
pulumi.export("controller", controller.connection)
pulumi.export("logins", list(controller.logins.values()))
pulumi.export("fleets", {name: fleet.nodes for name, fleet in fleets.items()})
pulumi.export("sshKey", controller.private_key)
