"""Buckets of objects, and what they share: compression, and the journal in objects of its own, since objects do not grow.

``KEY/BEGAN-NUMBER``   each write of a journal; BEGAN tells the operations apart, in ns since 1970
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tidepool.engine.state import files
from tidepool.engine.state.files import StorageError


class ObjectBucket(ABC):
    """A bucket whose keys are paths below nothing. Each of its own methods raises StorageError.

    ``folder`` is what all names of its objects begin with: empty, or it ends in ``/``.
    """

    root: ClassVar[Path] = Path()
    is_shared = True
    folder = ""

    @abstractmethod
    def location(self, key: Path) -> str: ...

    @abstractmethod
    def get(self, key: Path) -> bytes:
        """The content as it is stored. Raises FileNotFoundError."""

    @abstractmethod
    def put(self, key: Path, content: bytes, *, new: bool = False) -> bool:
        """Store the content; ``new`` where there is none yet, which it returns."""

    @abstractmethod
    def delete(self, keys: Sequence[Path]) -> None:
        """Remove them all; those that are not there are no error."""

    @abstractmethod
    def copy(self, key: Path, target: Path) -> bool: ...

    @abstractmethod
    def folders(self, folder: Path) -> list[str]: ...

    @abstractmethod
    def dated(self, folder: Path, prefix: str = "") -> list[tuple[int, str]]: ...

    def name(self, key: Path) -> str:
        """The name of the object."""
        return self.folder + "/".join(key.parts)

    def above(self, folder: Path) -> str:
        """Return the beginning of the names of all objects below ``folder``."""
        return self.folder + "".join(f"{part}/" for part in folder.parts)

    def read(self, key: Path) -> bytes:
        return files.unpacked(self.get(key), self.location(key))

    def write(self, key: Path, content: bytes, *, durable: bool = True, mode: int = 0o600) -> None:
        # Durable they always are, and who may read them is their place's to say.
        self.put(key, files.packed(content, key.name))

    def write_new(self, key: Path, content: bytes) -> bool:
        return self.put(key, content, new=True)

    def move(self, key: Path, target: Path) -> None:
        if not self.copy(key, target):
            raise FileNotFoundError(self.location(key))
        self.delete([key])

    def remove(self, key: Path) -> None:
        self.delete([key])

    def names(self, folder: Path) -> list[str]:
        return sorted(name for _, name in self.dated(folder))

    def remove_unfinished(self, key: Path) -> None:
        return  # nothing is: an object is there when it is whole

    def log(self, key: Path) -> ObjectLog:
        return ObjectLog(self, key)


class ObjectLog:
    """The journal in the objects below ``key``."""

    def __init__(self, bucket: ObjectBucket, key: Path) -> None:
        self._bucket = bucket
        self._key = key
        self._began = ""
        self._written: list[Path] = []

    @property
    def location(self) -> str:
        return self._bucket.location(self._key)

    def write(self, text: bytes) -> None:
        self._began = self._began or f"{time.time_ns():020}"
        # Where it is not answered it may be there all the same; what comes next has this text in it, and replaces it.
        key = self._numbered(self._began, len(self._written))
        self._bucket.put(key, text)
        self._written.append(key)

    def close(self) -> None:
        """Nothing is open."""

    def remove(self) -> None:
        # One that was begun and not answered is among them.
        self._bucket.delete([*self._written, self._numbered(self._began, len(self._written))])

    def read(self) -> bytes | None:
        keys = self._last()
        # Whoever wrote it takes it away when all is in the state, and one after the other: what is left of it is no journal.
        if not keys or keys[0].name != self._numbered(keys[0].name.partition("-")[0], 0).name:
            return None
        try:
            return b"".join(map(self._bucket.get, keys))
        except FileNotFoundError:
            return None

    def amend(self, line: bytes) -> None:
        if not (keys := self._last()):
            raise StorageError(f"the journal {self.location} is gone: whoever wrote it has ended. Look again")
        began, _, number = keys[-1].name.partition("-")
        self._bucket.put(self._numbered(began, int(number) + 1), line)

    def clear(self) -> None:
        self._bucket.delete([self._key / name for name in self._bucket.names(self._key)])

    def _last(self) -> list[Path]:
        """The objects of the operation that began last. An earlier one's are left where its lock was broken."""
        names = self._bucket.names(self._key)
        return [self._key / name for name in names if name.startswith(names[-1].partition("-")[0])]

    def _numbered(self, began: str, number: int) -> Path:
        return self._key / f"{began}-{number:08}"
