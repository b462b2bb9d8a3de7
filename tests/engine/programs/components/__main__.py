"""Components in components."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

class Web(pulumi.ComponentResource):
    def __init__(self, name: str, size: int, opts: pulumi.ResourceOptions | None = None, type: str = "my:index:Web"):
        super().__init__(type, name, {"size": size}, opts)
        mine = pulumi.ResourceOptions(parent=self)
        self.front = Server(f"{name}-front", size=size, opts=mine)
        self.back = Server(f"{name}-back", peer=self.front.address, opts=mine)
        self.register_outputs({"url": self.front.address, "size": size})


class Site(pulumi.ComponentResource):
    def __init__(self, name: str, size: int):
        super().__init__("my:index:Site", name)
        self.web = Web(f"{name}-web", size, pulumi.ResourceOptions(parent=self))
        self.url = self.web.front.address
        self.register_outputs({"url": self.url})


first = Site("first", step)
if step < 3:
    second = Web("second", 5, pulumi.ResourceOptions(depends_on=[first]))
else:
    extra = Server("extra", opts=pulumi.ResourceOptions(depends_on=[first]))

pulumi.export("url", first.url)
pulumi.export("site", first)
