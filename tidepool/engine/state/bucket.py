"""The contract of a bucket, where a backend keeps state: a folder, an S3 bucket, a table of PostgreSQL.

A key is a path below the bucket's ``root``; of a folder it is the file's own path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tidepool.engine.errors import UsageError


class Log(Protocol):
    """A journal's bytes, which grow while an operation runs. The first :meth:`write` begins it anew."""

    @property
    def location(self) -> str:
        """Its location, for people."""
        ...

    def write(self, text: bytes) -> None:
        """Add ``text``, whole lines, and return when it is durable.

        Raises:
            StorageError: when it cannot be written; it then ends with what was written before, or with all of ``text``.
        """
        ...

    def close(self) -> None:
        """Leave it where it is, for the next operation."""
        ...

    def remove(self) -> None:
        """Delete what this object wrote; what another operation wrote there since stays."""
        ...

    def read(self) -> bytes | None:
        """Return what the last operation left; None where there is nothing."""
        ...

    def amend(self, line: bytes) -> None:
        """Add a line to what was left, after its last whole one. Raises StorageError."""
        ...

    def clear(self) -> None:
        """Delete whatever was left. Raises StorageError."""
        ...


class Bucket(Protocol):
    """Named contents. Each write is whole or not at all, and is seen by all reads and lists that begin after it.

    Methods raise StorageError, with the remedy, where the place cannot be used; reading is without compression.
    """

    @property
    def root(self) -> Path: ...

    @property
    def is_shared(self) -> bool:
        """Tell whether processes of several machines come here: then one that is not seen on this machine may well live."""
        ...

    def location(self, key: Path) -> str:
        """Return the location of ``key``, for people: without credentials."""
        ...

    def read(self, key: Path) -> bytes:
        """The content. Raises FileNotFoundError, and NotSupportedError where it is compressed with zstd."""
        ...

    def write(self, key: Path, content: bytes, *, durable: bool = True, mode: int = 0o600) -> None:
        """Replace the content; where the name ends in .gz it is compressed. ``durable`` and ``mode`` are of files."""
        ...

    def write_new(self, key: Path, content: bytes) -> bool:
        """Write it where there is none yet; returns whether it was. Of several at once, one does."""
        ...

    def copy(self, key: Path, target: Path) -> bool:
        """Make ``target`` what ``key`` is now; returns whether there is ``key``."""
        ...

    def move(self, key: Path, target: Path) -> None:
        """Rename it. Raises FileNotFoundError."""
        ...

    def remove(self, key: Path) -> None:
        """Remove it, where it is there."""
        ...

    def names(self, folder: Path) -> list[str]:
        """The last parts of the keys directly below ``folder``, in order."""
        ...

    def folders(self, folder: Path) -> list[str]:
        """The last parts of the folders directly below ``folder`` that hold something, in order."""
        ...

    def dated(self, folder: Path, prefix: str = "") -> list[tuple[int, str]]:
        """As :meth:`names`, of those that begin with ``prefix``, each after its last change in ns since 1970."""
        ...

    def remove_unfinished(self, key: Path) -> None:
        """Remove what writes of it left that were killed. Only for who holds the lock."""
        ...

    def log(self, key: Path) -> Log:
        """The journal ``key``."""
        ...


def without_credentials(url: str) -> str:
    """``url`` without what stands before ``@`` and after ``?``."""
    url = url.split("?", 1)[0]
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else url


def require_no_password(url: str, password: str | None, remedy: str) -> None:
    """Refuse a URL with a password: URLs are shown, logged and kept in files.

    Raises:
        UsageError: when there is one; says where it belongs.
    """
    if password:
        raise UsageError(
            f"the backend {without_credentials(url)}: its URL has a password in it, which every list of processes and "
            f"~/.pulumi would show; take it out, and give it by {remedy}"
        )
