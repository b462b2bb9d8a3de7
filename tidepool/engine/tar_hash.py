"""The SHA-256 of the tar file that Go's ``archive/tar`` would make of some blobs.

That is how Pulumi identifies the contents of an archive. Python's ``tarfile`` writes the same contents
with other header bytes (device numbers, the padding at the end), so the headers are written here: USTAR
where the name allows it, PAX otherwise, mode 0600, no owner, time zero.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

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
