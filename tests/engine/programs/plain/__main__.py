"""A resource whose provider leaves the comparison to the engine."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

from cloud import Plain

a = Plain("a", size=step, tags={"one": step} if step < 3 else {"two": [1, {"three": step}]}, same="same")
b = Plain("b", peer=a.address, list=[1, 2, 3] if step < 2 else [1, 3])
c = Plain("c", maybe="here" if step < 2 else None)
