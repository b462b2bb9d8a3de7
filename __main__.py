"""One stack is one cluster: the spec in Pulumi.<stack>.yaml becomes components, and those the stack's outputs."""

import os
from pathlib import Path

import pulumi

from tidepool import components

stack, here = pulumi.get_stack(), Path(__file__).parent
asked = components.asked(pulumi.Config(), os.environ)
spec = asked.spec

sites = components.sites_of(spec, stack, here)
own = sites.own
controller = components.SlurmController(
    spec.name, components.SlurmControllerArgs(spec, own.infrastructure, own.network, own.image)
)
fleets = {}
for fleet in spec.fleets:
    nodes, places = asked.nodes[fleet.name], asked.places[fleet.name]
    args = components.ComputeFleetArgs(fleet, nodes, controller, sites.of_fleet(fleet), asked.only, places)
    fleets[fleet.name] = components.ComputeFleet(fleet.name, args)
if spec.kubernetes is not None:
    from tidepool.toolchain import find

    tools = find(os.environ).folder
    pools = components.PoolsArgs(
        asked, controller, own.infrastructure, own.network, sites.images, stack, tools
    )
    for name, value in components.pools_of(pools).items():
        pulumi.export(name, value)

for name, value in asked.outputs.items():
    pulumi.export(name, value)
pulumi.export("cluster", spec.name)
pulumi.export("network", str(spec.network))
pulumi.export("controller", controller.connection)
pulumi.export("logins", list(controller.logins.values()))
pulumi.export("fleets", {name: fleet.nodes for name, fleet in fleets.items()})
pulumi.export("sshKey", controller.private_key)
