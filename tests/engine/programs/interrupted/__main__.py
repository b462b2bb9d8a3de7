"""An operation that is interrupted while a call is under way."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

a = Server("a", size=step)
b = Server("b", peer=a.address)
