#!/usr/bin/env python3
"""The strips together as picture.png."""

import struct
import zlib
from pathlib import Path

WIDTH, HEIGHT, STRIPS = 480, 320, 8


def chunk(kind: bytes, data: bytes) -> bytes:
    """Return a part of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def main() -> None:
    """Read the strips in their order, and write the picture."""
    points = b"".join(Path(f"strip-{number}").read_bytes() for number in range(STRIPS))
    rows = b"".join(b"\0" + points[at : at + WIDTH] for at in range(0, WIDTH * HEIGHT, WIDTH))
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows, 9)), chunk(b"IEND", b"")
    Path("picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    print(f"{WIDTH} by {HEIGHT} points, of {STRIPS} strips")  # noqa: T201 - a job's output


if __name__ == "__main__":
    main()
