"""Network namespaces, which are a thread's: its sockets stay in the one that it made them in."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_CLONE_NEWNET: Final = 0x40000000


def enter(namespace: str) -> None:
    """Move this thread into the namespace of that path; "" is the one that it is in."""
    if not namespace:
        return
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), namespace)
    finally:
        os.close(descriptor)
