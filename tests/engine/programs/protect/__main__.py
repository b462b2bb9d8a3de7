"""Resources that may not be deleted."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

safe = pulumi.ResourceOptions(protect=step < 5)
after = []
if step != 2:
    a = Server("a", opts=safe, zone="east" if step != 3 else "west", size=step)
    after = [a]
if step != 5:
    c = Server("c", opts=pulumi.ResourceOptions(protect=step < 6, depends_on=after))
    after = [c]
b = Server("b", opts=pulumi.ResourceOptions(depends_on=after))
