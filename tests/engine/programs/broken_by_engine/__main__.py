"""What a broken operation leaves behind is understood by the other."""
import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
a = Server("a", zone="east" if step < 2 else "west")
b = Server("b", peer=a.address, size=step)
c = Server("c", peer=b.revision)
