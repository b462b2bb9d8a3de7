"""One stack is one cluster: the spec in Pulumi.<stack>.yaml becomes components, and those the stack's outputs."""

import os
from pathlib import Path

import pulumi

from tidepool import components

stack, here = pulumi.get_stack(), Path(__file__).parent
asked = components.asked(pulumi.Config(), os.environ)
spec = asked.spec

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
    image = images[spec.fleet_image(fleet, fleet.infrastructures[0])]
    nodes = asked.nodes[fleet.name]
    args = components.ComputeFleetArgs(fleet, nodes, controller, infrastructure, network, image, asked.only)
    fleets[fleet.name] = components.ComputeFleet(fleet.name, args)

for name, value in asked.outputs.items():
    pulumi.export(name, value)
pulumi.export("cluster", spec.name)
pulumi.export("network", str(spec.network))
pulumi.export("controller", controller.connection)
pulumi.export("logins", list(controller.logins.values()))
pulumi.export("fleets", {name: fleet.nodes for name, fleet in fleets.items()})
pulumi.export("sshKey", controller.private_key)
