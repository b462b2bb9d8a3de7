"""A chain, and one beside it."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

a = Server("a", size=step)
b = Server("b", peer=a.revision, size=step)
c = Server("c", peer=b.revision, size=step)
x = Server("x", size=step)

pulumi.export("c", c.revision)
