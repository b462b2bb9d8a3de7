"""A provider whose process ends in the middle of a call."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

a = Server("a", size=step)
b = Server("b", peer=a.address, size=step)
if step < 3:
    c = Server("c", peer=b.address)
