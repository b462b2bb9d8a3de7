"""Namespaces of a measurement's own: what is started in them, mounted and listened to ends with whoever started it.

Also after a kill -9: the first process in them is killed by the kernel with its parent, and with that one all others are.
Files are on a tmpfs that only they see.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidepool.lab.errors import LabError

FOLDER: Final = Path("/mnt")
"""The tmpfs."""
ADDRESS: Final = "192.0.2.1"
"""Where all listen: of RFC 5737. Names are not resolved where there is none but the loopback's (getaddrinfo, AI_ADDRCONFIG)."""
_TOOLS: Final = {"setpriv": "util-linux", "unshare": "util-linux", "ip": "iproute2", "mount": "mount"}
# The shell reaps processes whose parents have ended, as the first process of its namespace must.
_FIRST: Final = """\
set -e
ip link set lo up
ip address add "$1/32" dev lo
mount -t tmpfs -o mode=0755 tmpfs "$2"
shift 2
"$@" &
wait "$!"
"""


def enclosed(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs ``argv`` in namespaces of its own.

    Raises:
        LabError: this machine cannot.
    """
    if os.geteuid() != 0:
        raise LabError(
            "simulated nodes are in namespaces of their own, which root alone makes; run it with sudo"
        )
    if lacks := [package for tool, package in _TOOLS.items() if not shutil.which(tool)]:
        raise LabError(f"programs are missing for namespaces; apt install {' '.join(sorted(set(lacks)))}")
    return (
        *("setpriv", "--pdeathsig", "KILL"),
        *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *("sh", "-c", _FIRST, "sh", ADDRESS, str(FOLDER)),
        *argv,
    )
