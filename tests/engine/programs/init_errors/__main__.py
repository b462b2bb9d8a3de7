"""Resources that exist, but did not come up."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

a = Server("a", size=step)
b = Server("b", peer=a.address)
