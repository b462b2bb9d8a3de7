#!/usr/bin/env python3
"""Uses most of the memory that it asked for, and reads it again."""

import hashlib
import os
import socket

mib = int(os.environ["SLURM_MEM_PER_NODE"]) // 2
held = bytearray(os.urandom(1 << 20)) * mib
same = (
    len({hashlib.sha256(held[place : place + (1 << 20)]).digest() for place in range(0, len(held), 1 << 20)})
    == 1
)
print(f"{mib} MiB on {socket.gethostname()}: {'whole' if same else 'broken'}")
