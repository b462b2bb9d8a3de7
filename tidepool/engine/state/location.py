"""The URLs of backends: which bucket each names, in Pulumi's forms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from tidepool.engine.errors import NotSupportedError
from tidepool.engine.state.bucket import Bucket, without_credentials

_FILE_SCHEME: Final = "file://"
_S3_SCHEME: Final = "s3://"
_POSTGRES_SCHEME: Final = "postgres://"


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
