"""The forms of an image, made when they are asked for: tar, ext4, qcow2."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from tidepool.images.apt import sha256_of
from tidepool.images.errors import ImageError
from tidepool.images.isolated import run
from tidepool.images.machine import Machine, require
from tidepool.images.progress import Observer, Phase, Progress, unseen
from tidepool.images.store import Image, ImageStore

Form = Literal["tar", "ext4", "qcow2"]

_WRITE_S: Final = 900.0
#: Of names made from a digest (RFC 9562, version 5), so that an image's file system has one identity.
_NAMES: Final = uuid.UUID("6f3d2a52-6c3b-5f0e-9c06-3f8a3f0d1c7e")
#: The first mke2fs that reads tar files and takes its time from SOURCE_DATE_EPOCH.
_REPRODUCIBLE_MKE2FS: Final = (1, 47, 1)


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

    The tar has the same bytes wherever it is made. So has the ext4 where mke2fs is 1.47.1 or newer; an older one
    writes the time of the making into each file.

    Raises:
        MissingTool: the form's program is missing; with the command that installs it.
        BuildFailed: it failed.
    """
    if form not in get_args(Form):
        raise ImageError(f"{form}: there is no such form of an image; allowed: {', '.join(get_args(Form))}")
    if (found := _find(image, form)) is not None:
        return found
    require(
        "setpriv",
        "unshare",
        *{"tar": ["tar"], "ext4": ["mke2fs", "tar"], "qcow2": ["mke2fs", "qemu-img"]}[form],
    )
    # What it is made from has the lock to itself.
    made_from = {"qcow2": "ext4", "ext4": "tar" if _mke2fs_is_reproducible() else None}.get(form)
    base = export(image, _form(made_from), store, machine, observe=observe).path if made_from else None
    wait = Progress(Phase.WAIT, 0.0)
    with store.locked(image.digest, on_wait=lambda: observe(wait), timeout_s=_WRITE_S) as lock_descriptor:
        if (found := _find(image, form)) is not None:
            return found
        observe(Progress(Phase.WRITE, 0.0, form))
        partial = image.folder / f"image.{form}.partial"
        partial.unlink(missing_ok=True)
        run(
            _command(image, form, base, partial),
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


def _command(image: Image, form: Form, base: Path | None, target: Path) -> list[str]:
    match form:
        case "tar":
            times = "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime"
            command = ["tar", "--create", f"--file={target}", f"--directory={image.root}", "--format=posix"]
            return [*command, "--sort=name", "--numeric-owner", "--xattrs", "--xattrs-include=*", times, "."]
        case "ext4":
            name = str(uuid.uuid5(_NAMES, image.digest))
            command = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(base or image.root), "-U", name]
            return [*command, "-E", f"hash_seed={name},root_owner=0:0", str(target), f"{image.size_mib}M"]
        case "qcow2":
            command = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", "-o", "compression_type=zstd"]
            return [*command, str(base), str(target)]


def _find(image: Image, form: Form) -> ImageFile | None:
    path = image.folder / f"image.{form}"
    if not path.exists():
        return None
    return ImageFile(form, path, _digest_path(image, form).read_text().split()[0])


def _digest_path(image: Image, form: Form) -> Path:
    return image.folder / f"image.{form}.sha256"


def _form(name: str) -> Form:
    return next(form for form in get_args(Form) if form == name)


def _write_whole(path: Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.rename(path)


def _mke2fs_is_reproducible() -> bool:
    """Whether the machine's mke2fs reads tar files and takes its time from the environment."""
    if shutil.which("mke2fs") is None:
        return False
    command = ["mke2fs", "-V"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stderr
    match = re.search(r"mke2fs (\d+)\.(\d+)(?:\.(\d+))?", said)
    return match is not None and tuple(int(n or 0) for n in match.groups()) >= _REPRODUCIBLE_MKE2FS
