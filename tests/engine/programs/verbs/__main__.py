"""A small stack to look at."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

a = Server("a", size=step)
pulumi.export("address", a.address)
pulumi.export("password", pulumi.Output.secret("hunter2"))
