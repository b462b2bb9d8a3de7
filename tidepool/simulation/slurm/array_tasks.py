"""The tasks of an array that have not begun: ``0-9:2,12%4``, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class ArrayTasks:
    """Indices in their order, kept as ranges, for an array may have 100,000 of them."""

    def __init__(self, written: str) -> None:
        tasks, _, most = written.partition("%")
        self.most_at_once = int(most) if most else None
        self._ranges: deque[range] = deque(_ranges(tasks.split(",")))

    def __len__(self) -> int:
        return sum(map(len, self._ranges))

    def __str__(self) -> str:
        written = ",".join(map(_text, self._ranges))
        return written if self.most_at_once is None or not written else f"{written}%{self.most_at_once}"

    def pop(self) -> int:
        """The next index; it is none of them any more."""
        first = self._ranges.popleft()
        if len(first) > 1:
            self._ranges.appendleft(first[1:])
        return first[0]


def _ranges(parts: Iterable[str]) -> Iterable[range]:
    for part in parts:
        numbers, _, step = part.partition(":")
        first, _, last = numbers.partition("-")
        yield range(int(first), int(last or first) + 1, int(step or 1))


def _text(indices: range) -> str:
    if len(indices) == 1:
        return str(indices[0])
    step = "" if indices.step == 1 else f":{indices.step}"
    return f"{indices[0]}-{indices[-1]}{step}"
