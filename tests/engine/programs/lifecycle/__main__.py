"""A resource's whole life: made, left alone, changed, replaced in both ways, removed."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

a = Server("a", size={1: 1, 2: 2}.get(step, 2), zone="east" if step < 4 else "west")
b = Server("b", peer=a.address, image="small" if step < 5 else "large")
if step < 6:
    c = Server("c", peer=b.address, tags={"one": "1", "two": "2"} if step < 3 else {"two": "zwei", "three": "3"})
d = Server("d", note=f"step {step}")

pulumi.export("address", a.address)
pulumi.export("serials", [a.serial, b.serial])
