"""Deletion before creation, with what depends on the replaced."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

a = Server("a", image="small" if step < 2 else "large")
b = Server("b", zone=a.address, size=1)
c = Server("c", peer=b.address)
d = Server("d", opts=Options(depends_on=[a]))
e = Server("e", zone="one" if step < 3 else "two", opts=Options(delete_before_replace=True))
f = Server("f", zone=e.address)
g = Server("g", peer=f.address, opts=Options(parent=e))
h = Server("h", image="small" if step < 4 else "large", opts=Options(delete_before_replace=False))
i = Server("i", zone=h.address)
