"""Calls of the provider that fail: what was done stays, what depends on it is not begun."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

a = Server("a", size=step)
d = Server("d", size=step)
b = Server("b", peers=[a.address, d.address], size=step)
c = Server("c", peer=b.address)
if step < 3:
    e = Server("e", peer=c.address)

pulumi.export("c", c.address)
