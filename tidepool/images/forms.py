"""Forms of an image, each made when it is first wanted.

tar        all files, for whoever unpacks them
ext4       a file system, without a partition table
qcow2      that, packed
disk       a whole disk that boots by BIOS and by UEFI, of an image that has a kernel
disk.qcow2 that, packed
iso        a CD that boots by BIOS and by UEFI, and is in memory then, of such an image
oci        a container image
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from tidepool.images.errors import ImageError
from tidepool.images.iso import write_iso
from tidepool.images.machine import Machine, require
from tidepool.images.progress import Observer, Phase, Progress, unseen
from tidepool.images.source import ImageSource
from tidepool.images.store import Image, ImageStore, root_sha256, sha256_of, tar_command, write_whole
from tidepool.images.writer import (
    BOOT_ROLE,
    WRITE_S,
    Writer,
    does_not_boot,
    refuse_what_does_not_boot,
    write_disk,
    write_ext4,
    write_oci,
)

Form = Literal["tar", "ext4", "qcow2", "disk", "disk.qcow2", "iso", "oci"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)

_PROGRAMS: Final[Mapping[Form, tuple[str, ...]]] = {
    "tar": ("tar",),
    "ext4": ("mke2fs", "dumpe2fs", "debugfs"),
    "qcow2": ("mke2fs", "dumpe2fs", "debugfs", "qemu-img"),
    "disk": ("mke2fs", "dumpe2fs", "debugfs", "sfdisk", "mformat", "mmd", "mcopy"),
    "disk.qcow2": ("mke2fs", "dumpe2fs", "debugfs", "sfdisk", "mformat", "mmd", "mcopy", "qemu-img"),
    "iso": ("mksquashfs", "xorriso", "mformat", "mmd", "mcopy"),
    "oci": ("tar",),
}
#: The form that another is made from.
_FROM: Final[Mapping[Form, Form]] = {"qcow2": "ext4", "disk": "ext4", "disk.qcow2": "disk", "oci": "tar"}
_BOOTED: Final = ("disk", "disk.qcow2", "iso")


@dataclass(frozen=True)
class ImageFile:
    """An image as one file: ``sha256`` in hexadecimal digits."""

    form: Form
    path: Path
    sha256: str


def export(
    image: Image, form: Form, store: ImageStore, machine: Machine, *, observe: Observer = unseen
) -> ImageFile:
    """Return the image in that form; made once, then found.

    The same image has the same bytes wherever the form is made, with the same release of its program.

    Raises:
        MissingTool: the form's program is missing; with the command that installs it.
        BuildFailed: it failed.
        ImageError: there is no such form, or the image has no kernel to boot.
    """
    if form not in FORMS:
        raise ImageError(f"{form}: there is no such form of an image; allowed: {', '.join(FORMS)}")
    if (found := find_form(image, form)) is not None:
        return found
    if form in _BOOTED:
        refuse_what_does_not_boot(image, form)
    require("setpriv", "unshare", *_PROGRAMS[form])
    # What it is made from has the lock to itself.
    made_from = export(image, _FROM[form], store, machine, observe=observe) if form in _FROM else None
    wait = Progress(Phase.WAIT, 0.0)
    with store.locked(image.digest, on_wait=lambda: observe(wait), timeout_s=WRITE_S) as lock_descriptor:
        if (found := find_form(image, form)) is not None:
            return found
        observe(Progress(Phase.WRITE, 0.0, form))
        partial = image.folder / f"image.{form}.partial"
        partial.unlink(missing_ok=True)
        _write(form, Writer(image, form, machine, lock_descriptor), made_from, partial)
        digest = sha256_of(partial)
        # The digest first: the file's own name is what says that both are there.
        write_whole(_digest_path(image, form), f"{digest}  image.{form}\n")
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.rename(image.folder / f"image.{form}")
    found = find_form(image, form)
    assert found is not None
    return found


def refuse_forms(source: ImageSource, forms: Iterable[Form]) -> None:
    """Refuse what an image of ``source`` cannot be written as, or not on this machine, before it is built.

    Raises:
        MissingTool: programs are missing; with the command that installs them.
        ImageError: it has nothing to boot.
    """
    forms = tuple(forms)
    for form in forms:
        if form in _BOOTED and BOOT_ROLE not in source.recipe.roles:
            raise does_not_boot(source.name, form, f"its recipe has no role {BOOT_ROLE}")
    require(*dict.fromkeys(program for form in forms for program in _PROGRAMS[form]))


def find_form(image: Image, form: Form) -> ImageFile | None:
    """Return the image in that form, where it was made before."""
    path = image.folder / f"image.{form}"
    if not path.exists():
        return None
    return ImageFile(form, path, _digest_path(image, form).read_text().split()[0])


@dataclass(frozen=True)
class Verdict:
    """Result of reading the root or a form (``what``) again; ``well`` is None where nothing was recorded that it could be compared with."""

    what: str
    well: bool | None
    detail: str


def verify(image: Image) -> Iterator[Verdict]:
    """Yield the verdict on the root, then on each form that was made of it. It reads all of them: a second for each GiB."""
    if image.root_sha256:
        now = root_sha256(image.root)
        same = now == image.root_sha256
        yield Verdict("root", same, now if same else f"{now}; it was built as {image.root_sha256}")
    else:
        yield Verdict("root", None, "it was built by a Tidepool that did not record what its root holds")
    for form in FORMS:
        if (file := find_form(image, form)) is not None:
            now = sha256_of(file.path)
            same = now == file.sha256
            yield Verdict(form, same, now if same else f"{now}; it was written as {file.sha256}")


def _write(form: Form, writer: Writer, made_from: ImageFile | None, target: Path) -> None:
    image = writer.image
    match form:
        case "tar":
            writer.run(tar_command(image.root, str(target)))
        case "ext4":
            write_ext4(writer, target)
        case "qcow2" | "disk.qcow2":
            assert made_from is not None
            command = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", "-o", "compression_type=zstd"]
            writer.run([*command, str(made_from.path), str(target)])
        case "disk":
            assert made_from is not None
            write_disk(writer, made_from.path, target)
        case "iso":
            write_iso(writer, target)
        case "oci":
            assert made_from is not None
            write_oci(image, made_from.path, made_from.sha256, target)


def _digest_path(image: Image, form: Form) -> Path:
    return image.folder / f"image.{form}.sha256"
