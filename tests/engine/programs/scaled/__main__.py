"""A fleet whose members somebody else asks for, one by one, while a person edits the rest."""

import os

import pulumi
from cloud import Server

members = os.environ["MEMBERS"].split(",")
edited = os.environ.get("EDITED") == "yes"


class Fleet(pulumi.ComponentResource):
    nodes: pulumi.Output[str]

    def __init__(self, name: str, members: list[str], size: int):
        super().__init__("my:index:Fleet", name)
        mine = pulumi.ResourceOptions(parent=self)
        slots = Server(f"{name}-slots", size=size, opts=mine)
        beside = pulumi.ResourceOptions(parent=self, depends_on=[slots], replace_with=[slots])
        for member in members:
            machine = Server(f"{member}-machine", size=size, opts=beside)
            Server(f"{member}-node", peer=machine.address, opts=mine)
        self.nodes = pulumi.Output.from_input(",".join(members))
        self.register_outputs({"nodes": self.nodes})


size = 2 if edited else 1
image = Server("image", size=size)
fleets = {"f": Fleet("f", members, size)}
if edited:
    fleets["g"] = Fleet("g", [], size)

pulumi.export("image", image.revision)
pulumi.export("size", size)
pulumi.export("fleets", {name: fleet.nodes for name, fleet in fleets.items()})
