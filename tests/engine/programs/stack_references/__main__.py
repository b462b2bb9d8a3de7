"""Two stacks of one project: one reads the other's outputs."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

if pulumi.get_stack() == "net":
    net = Server("net", size=step)
    pulumi.export("address", net.address)
    pulumi.export("size", net.revision)
    pulumi.export("password", pulumi.Output.secret("hunter2"))
else:
    other = pulumi.StackReference("organization/stack_references/net" if step < 3 else "organization/stack_references/nowhere")
    a = Server("a", peer=other.require_output("address"), secret=other.get_output("password"), size=other.get_output("size"))
    pulumi.export("password", other.get_output("password"))
    pulumi.export("none", other.get_output("nothing"))
    pulumi.export("all", other.outputs)
