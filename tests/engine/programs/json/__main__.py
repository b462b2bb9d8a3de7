"""A secret, an update, a replacement, an output."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

a = Server("a", size=step, tags={"step": str(step)})
b = Server("b", zone=a.address, password=pulumi.Output.secret(f"hunter2-{step}"))
c = Server("c", zone="east" if step < 2 else "west", peer=b.address)
if step < 2:
    d = Server("d", peer=c.address)
pulumi.export("a", a.address)
pulumi.export("c", c.revision)
pulumi.export("s", pulumi.Output.secret("hunter2"))
