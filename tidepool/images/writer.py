"""Writes forms of an image: runs programs without a network at the image's own time, and makes an ext4 file system."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.images.errors import BuildFailed
from tidepool.images.isolated import run
from tidepool.images.machine import Machine
from tidepool.images.store import Image

WRITE_S: Final = 900.0
#: Of names made from a digest (RFC 9562, version 5), so that an image's file system has one identity.
_NAMES: Final = uuid.UUID("6f3d2a52-6c3b-5f0e-9c06-3f8a3f0d1c7e")
#: The root's inode, and the first of those that are given out (lost+found).
_ROOT_INODE: Final = 2
_FIRST_INODE: Final = 11


@dataclass(frozen=True)
class Writer:
    """Writes ``form`` of ``image``, while ``lock_descriptor`` holds the image's lock."""

    image: Image
    form: str
    machine: Machine
    lock_descriptor: int

    @property
    def log(self) -> Path:
        """Path of the file of all that the programs say."""
        return self.image.folder / "build.log"

    def run(self, command: list[str], *, stdin: Path | None = None) -> str:
        """Run it to its end; gives what it said.

        Raises:
            BuildFailed: it failed, or took too long.
        """
        epoch = str(self.image.epoch)
        return run(
            command,
            what=f"writing image {self.image.name} as {self.form}",
            log=self.log,
            environment={
                "PATH": self.machine.environment.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
                "LC_ALL": "C.UTF-8",
                "TZ": "UTC0",
                "SOURCE_DATE_EPOCH": epoch,
                "E2FSPROGS_FAKE_TIME": epoch,
            },
            timeout_s=WRITE_S,
            stdin=stdin,
            inherited=(self.lock_descriptor,),
        )


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
