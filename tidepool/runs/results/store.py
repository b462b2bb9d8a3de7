"""Contract of a place where results are kept. One suite of tests holds a folder and S3 to it, with faults of each.

A name is a path below the place's URL. An object is whole or not there; one that was uploaded never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tidepool.runs.ports import Refused

#: So much is read and sent at a time, in bytes: what a kill loses, and what a thread holds. S3 takes no smaller part, and
#: 10,000 of them.
PART: Final = 8 * 2**20
MOST_PARTS: Final = 10_000


class Differs(Refused):
    """An object of that name is there, and is another."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Size and checksum, by which a file is known."""

    size: int
    sha256: str


class Source(Protocol):
    """A file that is uploaded, wherever it is. Its parts may be read by several threads, and again."""

    @property
    def size(self) -> int: ...

    @property
    def sha256(self) -> str:
        """The checksum of all of it, in hexadecimal digits."""
        ...

    def read(self, offset: int, length: int) -> bytes:
        """Return so many bytes from there. Raises RunError where it cannot be read, or has become shorter."""
        ...


class Store(Protocol):
    """A place where results are kept. All raise `RunError`, with the remedy, where it cannot be used."""

    def location(self, name: str) -> str:
        """Return the location of ``name``, for people: without options."""
        ...

    def check(self) -> None:
        """See that it is there and can be written, by what is taken away again.

        Raises:
            Refused: it is not there, or may not be written.
        """
        ...

    def read(self, name: str) -> bytes:
        """The content. Raises FileNotFoundError."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Replace the content."""
        ...

    def write_new(self, name: str, content: bytes) -> bool:
        """Write it where there is none yet; returns whether it was. Of several at once, one does."""
        ...

    def remove(self, name: str) -> None:
        """Take it away, where it is there."""
        ...

    def names(self, prefix: str) -> list[str]:
        """Return the names that begin so, in order; of what is whole alone."""
        ...

    def upload(self, name: str, source: Source, sent: Callable[[int], None]) -> bool:
        """Have ``source`` there; returns whether it was written. Where it is already, and is the same, nothing is.

        What an upload that was cut off left is gone on with. ``sent`` hears of bytes that are there, as they come.

        Raises:
            Differs: another is there.
        """
        ...

    def missing_parts(self, name: str, size: int, sha256: str, checksums: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers, from 1, of `spans` that have to come by `put_part`; of several, perhaps the next alone.

        None are missing where all of it is there, and has its name: an upload whose parts come one by one, from who has the file
        and not the store, ends so. ``checksums`` are those of the parts (MD5), in hexadecimal digits.

        Raises:
            Differs: another is there.
        """
        ...

    def put_part(self, name: str, size: int, number: int, data: bytes) -> None:
        """Take a part of an object of ``size`` bytes that `missing_parts` asked for.

        Raises:
            Refused: nobody asked for it.
        """
        ...

    def sha256(self, name: str) -> str:
        """Read an object, and return the checksum of what came, in hexadecimal digits. Raises FileNotFoundError."""
        ...

    def size(self, name: str) -> int:
        """Return its size in bytes. Raises FileNotFoundError."""
        ...

    def fetch(self, name: str, offset: int, length: int) -> bytes:
        """Return so many bytes from there, or what there is. Raises FileNotFoundError."""
        ...

    def unfinished(self, prefix: str) -> list[str]:
        """Return the names, which begin so, of uploads that were cut off."""
        ...

    def abandon(self, prefix: str) -> None:
        """Take away what uploads left that were cut off, of names that begin so."""
        ...

    def close(self) -> None:
        """Let go of connections. Closing twice is no mistake."""
        ...


def part_size(size: int) -> int:
    """Return the size of the parts of an object, in bytes: as small as can be, so that there are not too many."""
    least = -(-size // MOST_PARTS)
    return max(PART, -(-least // PART) * PART)


def spans(size: int) -> list[tuple[int, int]]:
    """Return the offset and the length of each part; of an empty object there is one, empty."""
    step = part_size(size)
    return [(at, min(step, size - at)) for at in range(0, size, step)] or [(0, 0)]
