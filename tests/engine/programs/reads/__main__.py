"""Resources that something else made, read."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

found = Server.get("found", "elsewhere-1" if step < 3 else "elsewhere-2")
mine = Server("mine", peer=found.address)
if step < 4:
    again = Server.get("again", mine.id)
later = Options(depends_on=[mine])
taken = Server("taken", later) if step < 5 else Server.get("taken", "taken-1", later)
if step == 2:
    missing = Server.get("missing", "no-such-thing", Options(depends_on=[mine, again, taken]))
pulumi.export("found", found.revision)
