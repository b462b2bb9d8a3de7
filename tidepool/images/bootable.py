"""Writes a disk that boots, from an image's ext4 and the boot loaders in its root: in files, no device, no mount."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tidepool.images.disk import (
    BOOT_IMG,
    CORE_IMG,
    EFI,
    EFI_PLACE,
    LOADERS,
    SECTOR,
    Layout,
    core_at,
    efi_serial,
    first_sector,
)
from tidepool.images.errors import ImageError
from tidepool.images.store import Image
from tidepool.images.writer import Writer

#: The role that puts boot loaders into an image.
BOOT_ROLE: Final = "boot"
#: Links of Debian's to the current kernel and its initrd.
_KERNEL: Final = ("vmlinuz", "initrd.img")


def boots(image: Image) -> bool:
    """Tell if a disk of it boots: it has a kernel, an initrd and boot loaders."""
    return not _lacks(image)


def refuse_what_does_not_boot(image: Image, form: str) -> None:
    """Raise ImageError where the image lacks what a boot needs; with the remedy."""
    if lacks := _lacks(image):
        raise does_not_boot(image.name, form, f"it has no {', no '.join(lacks)}")


def does_not_boot(name: str, form: str, why: str) -> ImageError:
    """Return the error for ``form``, a disk, of an image that has nothing to boot."""
    return ImageError(
        f"{form}: image {name} does not boot by itself, as {why}. Take an image that extends it with a kernel and the "
        f"role {BOOT_ROLE}, as debian-12-vm and debian-12-cloud do debian-12"
    )


def write_disk(writer: Writer, ext4: Path, target: Path) -> None:
    """Write it, with ``ext4`` as its root.

    Raises:
        BuildFailed: a program failed.
        ImageError: a boot loader is larger than its partition.
    """
    image = writer.image
    layout = Layout.around(ext4.stat().st_size)
    loaders = image.root / LOADERS
    core = core_at((loaders / CORE_IMG).read_bytes(), layout.bios.begin)
    if len(core) > layout.bios.size:
        raise ImageError(f"image {image.name}: {CORE_IMG} has {len(core)} bytes; allowed: {layout.bios.size}")
    with target.open("wb") as disk:
        disk.truncate(layout.size)
    script, efi = (target.with_name(f"{target.name}.{what}") for what in ("table", "efi"))
    try:
        script.write_text(layout.script(image.digest))
        writer.run(["sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", str(target)], stdin=script)
        _write_efi(writer, loaders / EFI, layout.efi.size, efi)
        with target.open("r+b") as disk:
            table = disk.read(SECTOR)
            disk.seek(0)
            disk.write(first_sector((loaders / BOOT_IMG).read_bytes(), table, layout.bios.begin))
            disk.seek(layout.bios.begin)
            disk.write(core)
            _copy(efi, disk.fileno(), layout.efi.begin)
            _copy(ext4, disk.fileno(), layout.root.begin)
    finally:
        script.unlink(missing_ok=True)
        efi.unlink(missing_ok=True)


def _write_efi(writer: Writer, loader: Path, size: int, target: Path) -> None:
    """Write a file system as UEFI wants it: FAT32, with the loader where firmware looks for one."""
    with target.open("wb") as file:
        file.truncate(size)
    serial = efi_serial(writer.image.digest)
    # A geometry has to be said; nothing reads it.
    command = ["mformat", "-i", str(target), "-F", "-N", serial, "-v", "EFI", "-T", str(size // SECTOR)]
    writer.run([*command, "-h", "64", "-s", "32", "::"])
    *folders, name = EFI_PLACE
    for depth in range(1, len(folders) + 1):
        writer.run(["mmd", "-i", str(target), f"::/{'/'.join(folders[:depth])}"])
    writer.run(["mcopy", "-i", str(target), str(loader), f"::/{'/'.join(folders)}/{name}"])


def _copy(source: Path, target: int, begin: int) -> None:
    """Copy what ``source`` has to ``target`` from byte ``begin``; its holes stay holes."""
    with source.open("rb") as file:
        size, at = os.fstat(file.fileno()).st_size, 0
        while at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                # Nothing but a hole is left.
                return
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            while at < end:
                at += os.copy_file_range(file.fileno(), target, end - at, at, begin + at)


def _lacks(image: Image) -> list[str]:
    root = image.root
    paths = {f"/{LOADERS}/{name}": root / LOADERS / name for name in (BOOT_IMG, CORE_IMG, EFI)}
    paths |= {
        f"/{name}": root / os.readlink(root / name).lstrip("/") if (root / name).is_symlink() else root / name
        for name in _KERNEL
    }
    return [name for name, path in paths.items() if not path.is_file()]
