"""Writes an image as an ISO that boots by BIOS and UEFI, and whose root is in memory: a virtual CD of a machine without a disk.

boot/bios.img, boot/efi.img   GRUB, made by the image's own
vmlinuz                       the image's kernel
init.img                      what the kernel starts first (`tidepool.images.memory_root`): a cpio
root.img                      the image's root, packed as a squashfs: a cpio with that one file
seed                          zeros, in whose place a machine finds what it is: a cpio besides

The same bytes wherever it is made, with the same releases of xorriso, mksquashfs and mtools.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tidepool.images.cpio import FILE, Entry, cpio
from tidepool.images.errors import ImageError
from tidepool.images.memory_root import LEFT_OUT, SQUASHFS, entries_of_init
from tidepool.images.writer import Writer

SECTOR: Final = 2048
#: What there is room for in ``seed``.
SEED_BYTES: Final = 4 * 2**20
SEED: Final = "SEED"

_LABEL: Final = "TIDEPOOL"
#: A floppy of that size is what firmware takes for sure.
_EFI_BYTES: Final = 2880 * 1024
_MODULES: Final = ("iso9660", "linux", "normal", "search", "search_fs_file")
_LOADER: Final = "search --file --set=root /root.img\nset prefix=($root)/boot/grub\nnormal\n"
#: Quiet: at 115200 baud all that a kernel says takes many seconds. What goes wrong is said all the same.
_MENU: Final = """\
linux /vmlinuz quiet console=tty0 console=ttyS0,115200
initrd /init.img /root.img /seed
boot
"""
#: Hosts read it at a BMC's pace: packed well, in blocks that are quick to unpack. Level 12 takes five times as long, for nothing.
_SQUASHFS: Final = (
    "-comp",
    "zstd",
    "-Xcompression-level",
    "9",
    "-b",
    "256K",
    "-no-exports",
    "-quiet",
    "-no-progress",
)


def write_iso(writer: Writer, target: Path) -> None:
    """Write it.

    Raises:
        BuildFailed: a program failed.
        ImageError: the image lacks what its root in memory is made with.
    """
    root = writer.image.root
    with TemporaryDirectory(dir=target.parent, prefix="iso-") as made:
        folder = Path(made) / "cd"
        (folder / "boot/grub").mkdir(parents=True)
        (folder / "boot/grub/grub.cfg").write_text(_MENU)
        (folder / "vmlinuz").write_bytes(inside(root, "vmlinuz").read_bytes())
        with (folder / "seed").open("wb") as seed:
            seed.truncate(SEED_BYTES)
        with (folder / "init.img").open("wb") as init:
            cpio(entries_of_init(root), init)
        packed = Path(made) / SQUASHFS
        left_out = [f"{each}/*" for each in LEFT_OUT]
        writer.run(["mksquashfs", str(root), str(packed), *_SQUASHFS, "-wildcards", "-e", *left_out])
        with (folder / "root.img").open("wb") as img:
            cpio([Entry(SQUASHFS, FILE | 0o400, packed)], img)
        packed.unlink()
        _write_loaders(writer, folder)
        for path in (folder, *folder.rglob("*")):
            os.utime(path, (writer.image.epoch, writer.image.epoch))
        command = [
            "xorriso",
            "-as",
            "mkisofs",
            "-quiet",
            "-R",
            "-V",
            _LABEL,
            "-o",
            str(target),
            "-c",
            "boot/catalog",
        ]
        bios = ["-b", "boot/bios.img", "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table"]
        efi = ["-eltorito-alt-boot", "-e", "boot/efi.img", "-no-emul-boot"]
        writer.run([*command, *bios, *efi, str(folder)])


def _write_loaders(writer: Writer, folder: Path) -> None:
    config, loader = folder / "boot/loader.cfg", folder / "boot/loader.efi"
    config.write_text(_LOADER)
    _grub(writer, config, "i386-pc-eltorito", folder / "boot/bios.img", "biosdisk")
    _grub(writer, config, "x86_64-efi", loader)
    image = folder / "boot/efi.img"
    with image.open("wb") as file:
        file.truncate(_EFI_BYTES)
    writer.run(["mformat", "-i", str(image), "-N", writer.image.digest[:8], "-v", "EFI", "-f", "2880", "::"])
    writer.run(["mmd", "-i", str(image), "::/EFI", "::/EFI/BOOT"])
    writer.run(["mcopy", "-i", str(image), str(loader), "::/EFI/BOOT/BOOTX64.EFI"])
    config.unlink()
    loader.unlink()


def _grub(writer: Writer, config: Path, form: str, target: Path, *more: str) -> None:
    """Have the image's own GRUB make a boot loader, by the image's own libraries."""
    root = writer.image.root
    libraries = [root / "lib/x86_64-linux-gnu", root / "usr/lib/x86_64-linux-gnu"]
    command = [
        inside(root, "lib64/ld-linux-x86-64.so.2"), "--library-path", ":".join(map(str, libraries)), root / "usr/bin/grub-mkimage",
        f"--directory={root}/usr/lib/grub/{form.removesuffix('-eltorito')}", f"--format={form}", "--prefix=/boot/grub",
        f"--config={config}", f"--output={target}", *_MODULES, *more,
    ]  # fmt: skip
    writer.run([*map(str, command)])


def inside(root: Path, name: str) -> Path:
    """The file that a path means within a root."""
    path = root / name
    for _ in range(8):
        if not path.is_symlink():
            return path
        link = os.readlink(path)
        path = root / link.lstrip("/") if link.startswith("/") else path.parent / link
    raise ImageError(f"/{name} of the image is a link that leads nowhere")


def seed_at(iso: Path) -> int:
    """Return where in an ISO its seed begins, in bytes.

    Raises:
        ImageError: it has none.
    """
    with iso.open("rb") as file:
        file.seek(16 * SECTOR)
        volume = file.read(SECTOR)
        # The root's own entry in the volume's description: where its list of files is, and how long that is (ECMA-119, 8.4 and 9.1).
        place, size = struct.unpack_from("<I", volume, 158)[0], struct.unpack_from("<I", volume, 166)[0]
        file.seek(place * SECTOR)
        listed = file.read(size)
    at = 0
    while at < len(listed):
        length = listed[at]
        if length == 0:
            # Entries do not go beyond a sector.
            at = (at // SECTOR + 1) * SECTOR
            continue
        name = listed[at + 33 : at + 33 + listed[at + 32]].decode("latin-1").rstrip(";1").rstrip(".")
        begin, size = (
            struct.unpack_from("<I", listed, at + 2)[0],
            struct.unpack_from("<I", listed, at + 10)[0],
        )
        if name == SEED and size == SEED_BYTES:
            return int(begin) * SECTOR
        at += length
    raise ImageError(f"{iso} has no place for a seed: write it by `tidepool image build NAME --form iso`")
