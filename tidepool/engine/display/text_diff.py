"""Differences between two texts: by character on one line, by line otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

#: A run of text that both texts have, only the old one, or only the new one.
Run = tuple[Literal["same", "delete", "add"], str]

# Beyond this, comparing characters costs more than its colours tell.
_COMPARED_CHARACTERS = 2000


def by_character(old: str, new: str) -> list[Run]:
    """The runs of two texts of one line."""
    if len(old) > _COMPARED_CHARACTERS or len(new) > _COMPARED_CHARACTERS:
        return [("delete", old), ("add", new)]
    return list(_runs(old, new))


def by_line(old: str, new: str) -> list[Run]:
    """The runs of whole lines of two texts."""
    return list(_runs(old.splitlines(keepends=True), new.splitlines(keepends=True)))


def _runs(old: Sequence[str], new: Sequence[str]) -> Iterator[Run]:
    from difflib import SequenceMatcher  # late: only texts that changed are compared

    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            yield "same", "".join(old[i:j])
            continue
        if i < j:
            yield "delete", "".join(old[i:j])
        if k < m:
            yield "add", "".join(new[k:m])
