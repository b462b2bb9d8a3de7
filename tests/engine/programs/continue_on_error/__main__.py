"""Two branches, of which one breaks."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

a = Server("a", size=step)
bad = Server("bad", peer=a.address, size=step)
after_bad = Server("after_bad", peer=bad.address)
good = Server("good", size=step)
after_good = Server("after_good", peer=good.address)
last = Server("last", peers=[after_bad.address, after_good.address])
if step < 3:
    old = Server("old", peer=a.address)

pulumi.export("good", after_good.address)
pulumi.export("bad", after_bad.address)
