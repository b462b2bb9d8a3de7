"""Replacements that are asked for by an option."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

a = Server("a", size=step, opts=Options(replacement_trigger="one" if step < 2 else "two"))
b = Server("b", opts=Options(replace_with=[a]))
c = Server("c", peer=b.address)
d = Server("d", opts=Options(replacement_trigger=a.serial))
