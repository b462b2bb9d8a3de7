"""Something that was looked at before it is needed, and what mends it: as `tidepool doctor` tells it, whoever looked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Nothing works without what ``lacks``; a ``note`` is for a person to know.
State = Literal["well", "note", "lacks"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was looked at. ``remedy`` is empty where all is well, and where the detail ends with it."""

    what: str
    state: State
    detail: str
    remedy: str = ""
