"""A chain that nothing in the program changes."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

a = Server("a", size=1)
b = Server("b", peer=a.address, size=step)
c = Server("c", peer=b.serial)
