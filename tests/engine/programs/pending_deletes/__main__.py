"""Replacements that break off half way."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

a = Server("a", zone="east" if step < 2 else "west" if step < 4 else "north")
b = Server("b", image="small" if step < 3 else "large", size=step, opts=Options(depends_on=[a]))
c = Server("c", peer=b.address)
