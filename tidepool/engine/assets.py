"""Hashes of assets and archives, equal to those that Pulumi computes.

Source: ``sdk/go/common/resource/{asset,archive}``. An asset's hash is that of its bytes. An archive that
is a file (``.tar``, ``.tgz``, ``.tar.gz``, ``.zip``, ``.jar``) has the hash of that file; a folder or a
collection of assets has that of the tar file that Go's ``archive/tar`` would make of them. Python's ``tarfile`` writes
the same contents with other header bytes (device numbers, the padding at the end), so the headers are written
here: USTAR where the name allows it, PAX otherwise, mode 0600, no owner, time zero.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final
from urllib.parse import unquote, urlsplit

from tidepool.engine.errors import EngineError
from tidepool.engine.values import Archive, Asset, Properties, Value, specials, transform

_BLOCK: Final = 512
_NAME_SIZE: Final = 100
_PREFIX_SIZE: Final = 155
_MODE: Final = 0o600


class TarHash:
    """Takes the members one after the other; of members with the same name only the first counts."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._seen: set[str] = set()

    def add(self, name: str, size: int, chunks: Iterable[bytes]) -> None:
        """Add a member of ``size`` bytes.

        Raises:
            ValueError: when ``chunks`` hold another number of bytes.
        """
        if name in self._seen:
            return
        self._seen.add(name)
        self._hash.update(header(name, size))
        read = 0
        for chunk in chunks:
            self._hash.update(chunk)
            read += len(chunk)
        if read != size:
            raise ValueError(f"incorrect blob size for {name}: expected {size}, got {read}")
        self._hash.update(bytes(-size % _BLOCK))

    def hexdigest(self) -> str:
        """The hash of the tar file, with the two empty blocks at its end."""
        whole = self._hash.copy()
        whole.update(bytes(2 * _BLOCK))
        return whole.hexdigest()


def header(name: str, size: int) -> bytes:
    """The blocks before the contents of a regular file."""
    if len(name.encode()) <= _NAME_SIZE and name.isascii():
        return _block(name, size)
    split = _split(name)
    if split is not None:
        prefix, suffix = split
        return _block(suffix, size, prefix=prefix)
    return _pax(name) + _block(_ascii(name)[:_NAME_SIZE], size)


def _split(name: str) -> tuple[str, str] | None:
    """Find the last slash at which USTAR can divide a long name."""
    if not name.isascii():
        return None
    at = name[: _PREFIX_SIZE + 1].rfind("/")
    if at <= 0 or not 0 < len(name) - at - 1 <= _NAME_SIZE:
        return None
    return name[:at], name[at + 1 :]


def _pax(name: str) -> bytes:
    """A header before the header, which holds the whole name."""
    folder, _, file = name.rpartition("/")
    record = _record("path", name)
    own_name = _ascii("/".join(p for p in (folder, "PaxHeaders.0", file) if p))[:_NAME_SIZE].rstrip("/")
    block = _block(own_name, len(record), mode=0, kind=b"x", devices=False)
    return block + record + bytes(-len(record) % _BLOCK)


def _record(key: str, value: str) -> bytes:
    """``LENGTH key=value``, where the length counts its own digits."""
    rest = f" {key}={value}\n".encode()
    length = len(rest)
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


def _block(
    name: str, size: int, *, prefix: str = "", mode: int = _MODE, kind: bytes = b"0", devices: bool = True
) -> bytes:
    device = b"0000000\0" if devices else bytes(8)
    before = name.encode().ljust(_NAME_SIZE, b"\0") + b"%07o\0" % mode + b"%07o\0" % 0 + b"%07o\0" % 0
    before += b"%011o\0" % size + b"%011o\0" % 0
    after = kind + bytes(_NAME_SIZE) + b"ustar\x0000" + bytes(64) + device + device
    after += prefix.encode().ljust(_PREFIX_SIZE, b"\0") + bytes(12)
    checksum = sum(before) + sum(after) + 8 * ord(" ")
    return before + b"%06o\0 " % checksum + after


def _ascii(name: str) -> str:
    return "".join(c for c in name if "\0" < c < "\x80")


ARCHIVE_SUFFIXES: Final = (".tar", ".tgz", ".tar.gz", ".zip", ".jar")
#: Pulumi's own folder is no part of an archive.
_BOOKKEEPING: Final = ".pulumi"
_CHUNK_BYTES: Final = 1 << 20
_DOWNLOAD_DEADLINE_S: Final = 60.0


class AssetError(EngineError):
    """The contents of an asset or archive cannot be read. The text names the path."""


def with_hashes(properties: Properties, folder: Path) -> Properties:
    """``properties`` with the hash of every asset and archive that has none yet.

    Reads files; ``properties`` without assets are given back as they are.

    Args:
        properties: of one resource.
        folder: what relative paths are relative to: the program's.

    Raises:
        AssetError: when contents cannot be read.
    """
    if not lack_hashes(properties):
        return properties

    def leave(value: Value) -> Value:
        if isinstance(value, Asset) and not value.hash:
            return replace(value, hash=asset_hash(value, folder))
        if isinstance(value, Archive) and not value.hash:
            return replace(value, hash=archive_hash(value, folder))
        return value

    hashed: Properties = transform(properties, leave)
    return hashed


def lack_hashes(properties: Properties) -> bool:
    """Return true where an asset or archive among ``properties`` has no hash yet."""
    return any(isinstance(v, Asset | Archive) and not v.hash for v in specials(properties))


def asset_hash(asset: Asset, folder: Path) -> str:
    """The SHA-256 of the asset's bytes, in hexadecimal digits."""
    blob = _asset_blob(asset, folder)
    digest = hashlib.sha256()
    for chunk in blob.chunks:
        digest.update(chunk)
    return digest.hexdigest()


def archive_hash(archive: Archive, folder: Path) -> str:
    """The SHA-256 of the archive, in hexadecimal digits."""
    source = archive.path or urlsplit(archive.uri or "").path
    if source.endswith(ARCHIVE_SUFFIXES):
        return asset_hash(Asset(path=archive.path, uri=archive.uri), folder)
    tar = TarHash()
    for name, blob in _members(archive, folder):
        try:
            tar.add(name, blob.size, blob.chunks)
        except ValueError as e:
            # It was changed while it was read.
            raise AssetError(f"failed to hash archive {_described(archive)}: {e}") from e
    return tar.hexdigest()


@dataclass(frozen=True, slots=True)
class _Blob:
    """Bytes to be read once; nothing is opened before the first is asked for."""

    size: int
    chunks: Iterator[bytes]


def _asset_blob(asset: Asset, folder: Path) -> _Blob:
    if asset.path is not None:
        return _file_blob(folder / asset.path)
    if asset.uri is not None:
        content = _download(asset.uri)
        return _Blob(len(content), iter([content]))
    if asset.text is None:
        raise AssetError("an asset has neither a text, a path nor a URI, so it cannot be read")
    content = asset.text.encode("utf-8", "surrogateescape")
    return _Blob(len(content), iter([content]))


def _file_blob(path: Path) -> _Blob:
    try:
        found = path.stat()
    except OSError as e:
        raise AssetError(f"failed to open asset file '{path}': {e.strerror}") from e
    if stat.S_ISDIR(found.st_mode):
        raise AssetError(f"asset path '{path}' is a directory; try using an archive")
    return _Blob(found.st_size, _chunks_of_file(path))


def _chunks_of_file(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from _chunks(file)
    except OSError as e:
        raise AssetError(f"failed to read asset file '{path}': {e.strerror}") from e


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk


def _members(archive: Archive, folder: Path) -> Iterator[tuple[str, _Blob]]:
    """The blobs of an archive, in the order in which they count."""
    if archive.path is not None:
        path = folder / archive.path
        if archive.path.endswith(ARCHIVE_SUFFIXES):
            yield from _members_of_file(path)
        elif not path.exists():
            raise AssetError(f"couldn't read archive path '{path}': no such file or directory")
        elif not path.is_dir():
            raise AssetError(
                f"'{path}' is neither a recognized archive type ({', '.join(ARCHIVE_SUFFIXES)}) nor a directory"
            )
        elif not path.is_symlink():  # Go does not walk into a folder that is given as a link
            yield from _members_of_folder(path, "")
    elif archive.uri is not None:
        yield from _members_of_download(archive.uri)
    elif archive.assets is None:
        raise AssetError("an archive has neither assets, a path nor a URI, so it cannot be read")
    else:
        for name in sorted(archive.assets, key=lambda n: n.encode("utf-8", "surrogateescape")):
            yield from _members_of_member(name, archive.assets[name], folder)


def _members_of_member(name: str, member: Value, folder: Path) -> Iterator[tuple[str, _Blob]]:
    try:
        if isinstance(member, Archive):
            for inner, blob in _members(member, folder):
                yield posixpath.normpath(posixpath.join(name, inner)), blob
        else:
            yield name, _asset_blob(member, folder)
    except AssetError as e:
        kind = "sub-archive" if isinstance(member, Archive) else "archive asset"
        raise AssetError(f"failed to expand {kind} '{name}': {e}") from e


def _members_of_folder(folder: Path, prefix: str) -> Iterator[tuple[str, _Blob]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda e: os.fsencode(e.name))
    except OSError as e:
        raise AssetError(f"failed to read folder '{folder}': {e.strerror}") from e
    for entry in entries:
        if entry.name == _BOOKKEEPING:
            continue
        name = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _members_of_folder(Path(entry.path), f"{name}/")
        elif not entry.is_dir():  # a link to a folder is left out
            yield name, _file_blob(Path(entry.path))


def _members_of_file(path: Path) -> Iterator[tuple[str, _Blob]]:
    try:
        with path.open("rb") as file:
            yield from _members_of_stream(file, path.name)
    except OSError as e:
        raise AssetError(f"couldn't read archive path '{path}': {e.strerror or e}") from e


def _members_of_download(uri: str) -> Iterator[tuple[str, _Blob]]:
    import io

    path = urlsplit(uri).path
    if not path.endswith(ARCHIVE_SUFFIXES):
        raise AssetError(
            f"file at URL '{uri}' is not a recognized archive format; allowed are {', '.join(ARCHIVE_SUFFIXES)}"
        )
    yield from _members_of_stream(io.BytesIO(_download(uri)), path)


def _members_of_stream(file: IO[bytes], name: str) -> Iterator[tuple[str, _Blob]]:
    # Both are only needed for archives within archives.
    import tarfile
    import zipfile

    try:
        if name.endswith((".zip", ".jar")):
            with zipfile.ZipFile(file) as zipped:
                for info in zipped.infolist():
                    if not info.is_dir():
                        with zipped.open(info) as member:
                            yield posixpath.normpath(info.filename), _Blob(info.file_size, _chunks(member))
        else:
            with tarfile.open(fileobj=file, mode="r:gz" if name.endswith(("gz",)) else "r:") as tar:
                for header in tar:
                    content = tar.extractfile(header) if header.isreg() else None
                    if content is not None:
                        yield posixpath.normpath(header.name), _Blob(header.size, _chunks(content))
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as e:
        raise AssetError(f"failed to read archive '{name}': {e}") from e


def _download(uri: str) -> bytes:
    parts = urlsplit(uri)
    if parts.scheme == "file":
        if parts.netloc not in {"", "localhost"}:
            raise AssetError(f"file:// host '{parts.netloc}' of '{uri}' is not supported (only localhost)")
        return b"".join(_chunks_of_file(Path(unquote(parts.path))))
    if parts.scheme not in {"http", "https"}:
        raise AssetError(f"unsupported scheme {parts.scheme!r} of '{uri}'; allowed are file, http and https")
    # 0.05 s to import, for what few programs use.
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(uri, timeout=_DOWNLOAD_DEADLINE_S) as response:  # noqa: S310 - checked above
            content: bytes = response.read()
            return content
    except (urllib.error.URLError, OSError) as e:
        raise AssetError(f"failed to fetch '{uri}': {e}") from e


def _described(archive: Archive) -> str:
    return f"'{archive.path or archive.uri}'" if archive.path or archive.uri else "of assets"
