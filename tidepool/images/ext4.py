"""An image as an ext4 file system, with the same bytes for the same root."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Final

from tidepool.images.errors import BuildFailed
from tidepool.images.writer import Writer

#: Of names made from a digest (RFC 9562, version 5), so that an image's file system has one identity.
_NAMES: Final = uuid.UUID("6f3d2a52-6c3b-5f0e-9c06-3f8a3f0d1c7e")
#: The root's inode, and the first of those that are given out (lost+found).
_ROOT_INODE: Final = 2
_FIRST_INODE: Final = 11


def write_ext4(writer: Writer, target: Path) -> None:
    """Write it.

    Raises:
        BuildFailed: a program failed: the root is larger than the recipe's size_mib, say.
    """
    image = writer.image
    name = str(uuid.uuid5(_NAMES, image.digest))
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(image.root), "-U", name]
    writer.run([*command, "-E", f"hash_seed={name},root_owner=0:0", str(target), f"{image.size_mib}M"])
    _set_times(writer, target)


def _set_times(writer: Writer, target: Path) -> None:
    """Set the times that mke2fs took from the root's own files, and that nobody can set there."""
    header = writer.run(["dumpe2fs", "-h", str(target)])
    counts = dict(re.findall(r"(?m)^(Inode count|Free inodes):\s+(\d+)$", header))
    last = int(counts["Inode count"]) - int(counts["Free inodes"])
    commands = target.with_name(f"{target.name}.times")
    commands.write_text(
        "".join(
            f"set_inode_field <{inode}> {field} @{writer.image.epoch}\nset_inode_field <{inode}> {field}_extra 0\n"
            for inode in (_ROOT_INODE, *range(_FIRST_INODE, last + 1))
            for field in ("ctime", "atime")
        )
    )
    said = writer.run(["debugfs", "-w", "-f", str(commands), str(target)])
    commands.unlink()
    # It repeats each command, and ends well whatever came of them.
    if wrong := [line for line in said.splitlines() if line and not line.startswith("debugfs")]:
        raise BuildFailed("setting the times of the files failed", writer.log, wrong[-5:])
