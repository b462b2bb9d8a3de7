"""Where state is kept: what a backend asks of a folder, of an S3 bucket and of a table of PostgreSQL, and the URLs that name them.

A key is a path below the bucket's ``root``; of a folder it is the file's own path.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote

from tidepool.engine.errors import NotSupportedError, UsageError

_FILE_SCHEME: Final = "file://"
_S3_SCHEME: Final = "s3://"
_POSTGRES_SCHEME: Final = "postgres://"


class Log(Protocol):
    """A journal's bytes, which grow while an operation runs. The first :meth:`write` begins it anew."""

    @property
    def place(self) -> str:
        """Where it is, for people."""
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
        """What the last operation left; None where there is nothing."""
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
        """Whether processes of several machines come here: then one that is not seen on this machine may well live."""
        ...

    def place(self, key: Path) -> str:
        """Where ``key`` is, for people: without credentials."""
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


def open_bucket(url: str, home: Path, cwd: Path, env: Mapping[str, str]) -> Bucket:
    """The place that a backend's URL names, in Pulumi's form; credentials are those that ``env`` leads to.

    Raises:
        NotSupportedError: for kinds of backends and options that only the CLI has, by name.
        UsageError: when the URL is not right, or has a password in it.
        StorageError: when it cannot be used.
    """
    # Late: the libraries take a third of a second to import, and most stacks are in a folder.
    if url.startswith(_S3_SCHEME):
        from tidepool.engine.state.s3 import S3Bucket

        return S3Bucket(url, env)
    if url.startswith(_POSTGRES_SCHEME):
        from tidepool.engine.state.postgres import PostgresBucket

        return PostgresBucket(url, env)
    from tidepool.engine.state.folder import Folder

    return Folder(root_of(url, home, cwd))


def is_shared(url: str) -> bool:
    """Return whether a backend's URL names a place that other machines reach as well."""
    return url.startswith((_S3_SCHEME, _POSTGRES_SCHEME))


def root_of(url: str, home: Path, cwd: Path) -> Path:
    """The folder that a ``file://`` URL names: absolute, relative to ``cwd``, or ``~`` for ``home``.

    Raises:
        NotSupportedError: for every other kind of backend, by name.
    """
    if not url.startswith(_FILE_SCHEME):
        raise NotSupportedError(
            f"the backend {without_credentials(url)} (file://, s3:// and postgres:// are supported)"
        )
    # Options such as ?no_tmp_dir=true tell the CLI how to write; they are not part of the path.
    path = unquote(url.removeprefix(_FILE_SCHEME).split("?", 1)[0])
    if path == "~":
        return home
    if path.startswith("~"):
        return home / path[2:]
    return Path(_normal(cwd / path))


def _normal(path: Path) -> str:
    # As Go's filepath.Abs: ".." is taken away in the text, links are not followed.
    parts: list[str] = []
    for part in path.parts[1:]:
        if part == "..":
            del parts[-1:]
        else:
            parts.append(part)
    return path.anchor + "/".join(parts)


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
