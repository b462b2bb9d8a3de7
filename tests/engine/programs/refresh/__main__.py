"""What the provider holds changes behind the program's back."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

a = Server("a", size=1)
b = Server("b", peer=a.address, size=1)
c = Server("c", peer=b.address, tags={"one": "1"})
if step < 2:
    d = Server("d")

pulumi.export("size", a.revision)
