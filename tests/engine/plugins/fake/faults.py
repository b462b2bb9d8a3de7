"""What is to go wrong: ``$FAKE_FAULTS``, a JSON object such as ``{"create:web": "fail", "*:db": "hang:5"}``.

Keys are METHOD:NAME, in lower case and with the resource's name in the program; either may be ``*``.
The faults:

fail          nothing is done, the call fails
fail-after    it is done, and the call fails all the same
die           the process ends before anything is done
lost-answer   it is done, and the process ends before it has answered
init          it is done, and reported as having failed to initialise (create and update)
hang:SECONDS  it is done only after that time; a cancel ends it before
fill:FILE     it is done, and the disk that FILE lies on is full before it is answered
deaf:SECONDS  it is done only after that time, whoever cancels it
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import Path


class Faults:
    """The faults of one process."""

    def __init__(self, text: str) -> None:
        self._faults: Mapping[str, str] = json.loads(text) if text else {}

    def of(self, method: str, name: str) -> str:
        """The fault of this call; empty where it goes well."""
        faults = self._faults
        if not faults:
            return ""
        for key in (f"{method}:{name}", f"{method}:*", f"*:{name}", "*:*"):
            if key in faults:
                return faults[key]
        return ""


def fill(path: Path) -> None:
    """Fill the disk that ``path`` is to lie on."""
    size = 1 << 20
    with path.open("wb", buffering=0) as file:
        while size:
            try:
                file.write(b"x" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2
