"""An engine that is killed in the middle of a call."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

a = Server("a", size=1 if step < 2 else 2)
if step < 3:
    c = Server("c", peer=a.address)
b = Server("b", peer=a.address, size=1 if step < 2 else 2, opts=pulumi.ResourceOptions(depends_on=[c] if step < 3 else []))
