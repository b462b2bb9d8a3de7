"""Many resources that may be made side by side, and few that may not."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

first = [Server(f"first-{n}", size=step) for n in range(6)]
second = [Server(f"second-{n}", peer=one.address) for n, one in enumerate(first)]
last = Server("last", peers=[s.address for s in second], size=step)
pulumi.export("last", last.address)
