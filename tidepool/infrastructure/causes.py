"""Kinds of failures in texts: a provider's errors reach others as lines for people, and the kind must not be lost."""

from __future__ import annotations

import re
from typing import Final, Literal, get_args

from tidepool.infrastructure.contract import InfrastructureError, InsufficientCapacity, Permanent

#: No such machine to be had; it may work in a while; it will not; the machine is there and never came up.
Cause = Literal["capacity", "transient", "permanent", "boot"]


def cause_of_kind(kind: type[InfrastructureError]) -> Cause:
    """The kinds of the contract, as causes."""
    if issubclass(kind, InsufficientCapacity):
        return "capacity"
    return "permanent" if issubclass(kind, Permanent) else "transient"


_CAUSES: Final = get_args(Cause)
_MARK = re.compile(r"\s*\[cause: (\w+)\]")


def marked(text: str, cause: Cause | None) -> str:
    """``text`` with its cause behind it, where there is one."""
    return f"{text.rstrip()} [cause: {cause}]" if cause else text


def unmarked(text: str) -> tuple[str, Cause | None]:
    """The text as it was, and its cause; None where it says none."""
    found = [mark[1] for mark in _MARK.finditer(text) if mark[1] in _CAUSES]
    return (_MARK.sub("", text) if found else text), (found[-1] if found else None)  # type: ignore[return-value]
