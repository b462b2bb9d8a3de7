"""Locks of engines at work at once, in any order of their calls to the bucket, with answers that are lost: never do two hold one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tidepool.engine.state.files import StorageError
from tidepool.engine.state.lock import StackLock, StackLocked
from tidepool.engine.state.objects import ObjectBucket

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOCKS = Path("locks")
#: Calls of one engine that takes the lock and gives it back: list, put, list, read, delete; and one more where it holds it.
CALLS = 8


class Turns:
    """Lets one call of all threads go on at a time, in the order that ``order`` says."""

    def __init__(self, order: Sequence[int]) -> None:
        self._order = list(order)
        self._changed = threading.Condition()
        self._waiting: list[int] = []
        self._running = 0
        self._chosen: int | None = None

    def begins(self) -> None:
        with self._changed:
            self._running += 1

    def ends(self) -> None:
        with self._changed:
            self._running -= 1
            self._choose()

    def await_turn(self, who: int) -> None:
        with self._changed:
            self._waiting.append(who)
            self._running -= 1
            self._choose()
            while self._chosen != who:
                self._changed.wait()
            self._chosen = None
            self._waiting.remove(who)
            self._running += 1

    def _choose(self) -> None:
        if self._running == 0 and self._waiting:
            at = self._order.pop(0) if self._order else 0
            self._chosen = sorted(self._waiting)[at % len(self._waiting)]
            self._changed.notify_all()


class MemoryBucket(ObjectBucket):
    """Objects that several engines see; ``lost`` are the numbers of this engine's calls that are done and not answered."""

    def __init__(self, objects: dict[str, bytes], turns: Turns, who: int, lost: Sequence[int]) -> None:
        self._objects, self._turns, self._who, self._lost = objects, turns, who, lost
        self._calls = 0

    def location(self, key: Path) -> str:
        return f"memory://{self.name(key)}"

    def get(self, key: Path) -> bytes:
        self._turns.await_turn(self._who)
        if key.as_posix() not in self._objects:
            raise FileNotFoundError(key)
        return self._objects[key.as_posix()]

    def put(self, key: Path, content: bytes, *, new: bool = False) -> bool:
        self._turns.await_turn(self._who)
        self._objects[key.as_posix()] = content
        self._answer()
        return True

    def delete(self, keys: Sequence[Path]) -> None:
        self._turns.await_turn(self._who)
        for key in keys:
            self._objects.pop(key.as_posix(), None)

    def copy(self, key: Path, target: Path) -> bool:
        raise NotImplementedError

    def folders(self, folder: Path) -> list[str]:
        raise NotImplementedError

    def dated(self, folder: Path, prefix: str = "") -> list[tuple[int, str]]:
        self._turns.await_turn(self._who)
        self._answer()
        above = self.above(folder)
        return [(0, name.removeprefix(above)) for name in self._objects if name.startswith(above)]

    def pause(self) -> None:
        """Let the others go on."""
        self._turns.await_turn(self._who)

    def _answer(self) -> None:
        self._calls += 1
        if self._calls in self._lost:
            raise StorageError("the answer is lost")


@given(
    order=st.lists(st.integers(0, 2), max_size=3 * CALLS),
    lost=st.lists(st.lists(st.integers(1, 4), max_size=1), min_size=3, max_size=3),
)
def test_never_do_two_hold_it(order: list[int], lost: list[list[int]]) -> None:
    objects: dict[str, bytes] = {}
    turns = Turns(order)
    holders: list[int] = []
    most: list[int] = []

    def engine(who: int) -> None:
        bucket = MemoryBucket(objects, turns, who, lost[who])
        try:
            with StackLock(bucket, LOCKS, lambda: NOW):
                holders.append(who)
                most.append(len(holders))
                bucket.pause()
                bucket.pause()
                holders.remove(who)
        except (StackLocked, StorageError):
            pass
        finally:
            turns.ends()

    threads = [threading.Thread(target=engine, args=[who]) for who in range(3)]
    for _ in threads:
        turns.begins()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert max(most, default=0) <= 1
    assert objects == {}  # whoever ended left nothing
