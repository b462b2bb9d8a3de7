"""A refresh that runs the program, so that providers are configured as it says now."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

from cloud import Provider

provider = Provider("p", region="north" if step < 2 else "south")
a = Server("a", size=step, opts=pulumi.ResourceOptions(provider=provider))
if step > 1:
    b = Server("b", opts=pulumi.ResourceOptions(provider=provider))
