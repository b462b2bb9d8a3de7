"""The forms of an image, made when they are asked for: tar, ext4, qcow2."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from tidepool.images.apt import sha256_of
from tidepool.images.errors import BuildFailed, ImageError
from tidepool.images.isolated import run
from tidepool.images.machine import Machine, require
from tidepool.images.progress import Observer, Phase, Progress, unseen
from tidepool.images.store import Image, ImageStore

Form = Literal["tar", "ext4", "qcow2"]

_WRITE_S: Final = 900.0
#: Of names made from a digest (RFC 9562, version 5), so that an image's file system has one identity.
_NAMES: Final = uuid.UUID("6f3d2a52-6c3b-5f0e-9c06-3f8a3f0d1c7e")
#: The root's inode, and the first of those that are given out (lost+found).
_ROOT_INODE: Final = 2
_FIRST_INODE: Final = 11

_PROGRAMS: Final[Mapping[Form, tuple[str, ...]]] = {
    "tar": ("tar",),
    "ext4": ("mke2fs", "dumpe2fs", "debugfs"),
    "qcow2": ("mke2fs", "dumpe2fs", "debugfs", "qemu-img"),
}


@dataclass(frozen=True)
class ImageFile:
    """An image as one file: ``sha256`` in hexadecimal digits."""

    form: Form
    path: Path
    sha256: str


def export(
    image: Image, form: Form, store: ImageStore, machine: Machine, *, observe: Observer = unseen
) -> ImageFile:
    """The image in that form; made once, then found.

    The same image has the same bytes wherever the form is made, with the same release of its program.

    Raises:
        MissingTool: the form's program is missing; with the command that installs it.
        BuildFailed: it failed.
    """
    if form not in get_args(Form):
        raise ImageError(f"{form}: there is no such form of an image; allowed: {', '.join(get_args(Form))}")
    if (found := _find(image, form)) is not None:
        return found
    require("setpriv", "unshare", *_PROGRAMS[form])
    # What it is made from has the lock to itself.
    ext4 = export(image, "ext4", store, machine, observe=observe).path if form == "qcow2" else None
    wait = Progress(Phase.WAIT, 0.0)
    with store.locked(image.digest, on_wait=lambda: observe(wait), timeout_s=_WRITE_S) as lock_descriptor:
        if (found := _find(image, form)) is not None:
            return found
        observe(Progress(Phase.WRITE, 0.0, form))
        partial = image.folder / f"image.{form}.partial"
        partial.unlink(missing_ok=True)
        _run(image, form, machine, _command(image, form, ext4, partial), lock_descriptor)
        if form == "ext4":
            _set_times(image, machine, partial, lock_descriptor)
        digest = sha256_of(partial)
        # The digest first: the file's own name is what says that both are there.
        _write_whole(_digest_path(image, form), f"{digest}  image.{form}\n")
        descriptor = os.open(partial, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        partial.rename(image.folder / f"image.{form}")
    found = _find(image, form)
    assert found is not None
    return found


def _run(image: Image, form: Form, machine: Machine, command: list[str], lock_descriptor: int) -> str:
    return run(
        command,
        what=f"writing image {image.name} as {form}",
        log=image.folder / "build.log",
        environment={
            "PATH": machine.environment.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            "LC_ALL": "C.UTF-8",
            "SOURCE_DATE_EPOCH": str(image.epoch),
            "E2FSPROGS_FAKE_TIME": str(image.epoch),
        },
        timeout_s=_WRITE_S,
        inherited=(lock_descriptor,),
    )


def _set_times(image: Image, machine: Machine, target: Path, lock_descriptor: int) -> None:
    """Set the times that mke2fs took from the root's own files, and that nobody can set there."""
    header = _run(image, "ext4", machine, ["dumpe2fs", "-h", str(target)], lock_descriptor)
    counts = dict(re.findall(r"(?m)^(Inode count|Free inodes):\s+(\d+)$", header))
    last = int(counts["Inode count"]) - int(counts["Free inodes"])
    commands = target.with_name(f"{target.name}.times")
    commands.write_text(
        "".join(
            f"set_inode_field <{inode}> {field} @{image.epoch}\nset_inode_field <{inode}> {field}_extra 0\n"
            for inode in (_ROOT_INODE, *range(_FIRST_INODE, last + 1))
            for field in ("ctime", "atime")
        )
    )
    said = _run(image, "ext4", machine, ["debugfs", "-w", "-f", str(commands), str(target)], lock_descriptor)
    commands.unlink()
    # It repeats each command, and ends well whatever came of them.
    if wrong := [line for line in said.splitlines() if line and not line.startswith("debugfs")]:
        raise BuildFailed("setting the times of the files failed", image.folder / "build.log", wrong[-5:])


def _command(image: Image, form: Form, ext4: Path | None, target: Path) -> list[str]:
    match form:
        case "tar":
            times = "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime"
            command = ["tar", "--create", f"--file={target}", f"--directory={image.root}", "--format=posix"]
            return [*command, "--sort=name", "--numeric-owner", "--xattrs", "--xattrs-include=*", times, "."]
        case "ext4":
            name = str(uuid.uuid5(_NAMES, image.digest))
            command = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(image.root), "-U", name]
            return [*command, "-E", f"hash_seed={name},root_owner=0:0", str(target), f"{image.size_mib}M"]
        case "qcow2":
            command = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", "-o", "compression_type=zstd"]
            return [*command, str(ext4), str(target)]


def _find(image: Image, form: Form) -> ImageFile | None:
    path = image.folder / f"image.{form}"
    if not path.exists():
        return None
    return ImageFile(form, path, _digest_path(image, form).read_text().split()[0])


def _digest_path(image: Image, form: Form) -> Path:
    return image.folder / f"image.{form}.sha256"


def _write_whole(path: Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.rename(path)
