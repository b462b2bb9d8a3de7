"""The question whether a machine answers."""

from __future__ import annotations

import socket
from typing import Final

_SSH: Final = 22
_ANSWER_S: Final = 10.0


def silence(address: str, port: int = _SSH) -> str:
    """Return why a machine does not answer by SSH; empty where it does."""
    try:
        with socket.create_connection((address, port), timeout=_ANSWER_S) as there:
            there.settimeout(_ANSWER_S)
            said = there.recv(4)
    except OSError as error:
        return str(error)
    return "" if said == b"SSH-" else "what answers there is not SSH"
