#!/usr/bin/env python3
"""Takes most of the memory that the job asked for, fills all of it, and reads it again."""

import os
import socket

mib = int(os.environ["SLURM_MEM_PER_NODE"]) // 2
piece = os.urandom(1 << 20)
held = [bytearray(piece) for _ in range(mib)]
print(f"{mib} MiB on {socket.gethostname()}: {'whole' if all(each == piece for each in held) else 'broken'}")
