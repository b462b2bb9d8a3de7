"""A chain, so that there is one order to show."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

a = Server("a", size=step, tags={"step": str(step), "same": "same"}, text="one\ntwo\nthree" if step < 2 else "one\nzwei\nthree")
b = Server("b", peer=a.address, zone="east" if step < 2 else "west", password=pulumi.Output.secret(f"hunter2-{step}"))
if step < 2:
    c = Server("c", peer=b.address)
pulumi.log.info("a word")
pulumi.log.warn("a warning", b)
pulumi.export("a", a.address)
pulumi.export("c", {"nested": [b.revision, {"deep": b.address}]})
pulumi.export("s", pulumi.Output.secret("hunter2"))
