"""Writes an image as an ISO that boots by BIOS and UEFI, and whose root is in memory: a virtual CD of a machine without a disk.

boot/bios.img, boot/efi.img   GRUB, made by the image's own
vmlinuz                       the image's kernel
root.img                      the image's root as the kernel's initramfs: a cpio, packed
seed                          zeros, in whose place a machine finds what it is: a cpio besides
"""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from tidepool.images.errors import ImageError
from tidepool.images.writer import Writer

SECTOR: Final = 2048
#: What there is room for in ``seed``.
SEED_BYTES: Final = 4 * 2**20
SEED: Final = "SEED"

_LABEL: Final = "TIDEPOOL"
#: A floppy of that size is what firmware takes for sure.
_EFI_BYTES: Final = 2880 * 1024
_LEVEL: Final = 4
#: Of the root: what a kernel has beside it, and the boot loaders' own packages.
_LEFT_OUT: Final = ("boot", "dev", "proc", "sys", "run", "tmp", "usr/lib/grub")
_MODULES: Final = ("iso9660", "linux", "normal", "search", "search_fs_file")
_LOADER: Final = "search --file --set=root /root.img\nset prefix=($root)/boot/grub\nnormal\n"
#: Without `root=` the kernel keeps what it unpacked; a line of its own says what it starts there.
_MENU: Final = """\
linux /vmlinuz rdinit=/sbin/init console=tty0 console=ttyS0,115200
initrd /root.img /seed
boot
"""


def write_iso(writer: Writer, target: Path) -> None:
    """Write it.

    Raises:
        BuildFailed: a program failed.
    """
    root = writer.image.root
    with TemporaryDirectory(dir=target.parent, prefix="iso-") as made:
        folder = Path(made)
        (folder / "boot/grub").mkdir(parents=True)
        (folder / "boot/grub/grub.cfg").write_text(_MENU)
        shutil.copyfile(_inside(root, "vmlinuz"), folder / "vmlinuz")
        with (folder / "seed").open("wb") as seed:
            seed.truncate(SEED_BYTES)
        with (
            (folder / "root.img").open("wb") as plain,
            gzip.GzipFile("", "wb", _LEVEL, plain, mtime=0) as packed,
        ):
            write_root(root, packed)
        _write_loaders(writer, folder)
        command = ["genisoimage", "-quiet", "-R", "-V", _LABEL, "-o", str(target), "-c", "boot/catalog"]
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
        _inside(root, "lib64/ld-linux-x86-64.so.2"), "--library-path", ":".join(map(str, libraries)), root / "usr/bin/grub-mkimage",
        f"--directory={root}/usr/lib/grub/{form.removesuffix('-eltorito')}", f"--format={form}", "--prefix=/boot/grub",
        f"--config={config}", f"--output={target}", *_MODULES, *more,
    ]  # fmt: skip
    writer.run([*map(str, command)])


def _inside(root: Path, name: str) -> Path:
    """The file that a path means within a root."""
    path = root / name
    for _ in range(8):
        if not path.is_symlink():
            return path
        link = os.readlink(path)
        path = root / link.lstrip("/") if link.startswith("/") else path.parent / link
    raise ImageError(f"/{name} of the image is a link that leads nowhere")


class Target(Protocol):
    """A file, or what takes bytes as one."""

    def write(self, data: bytes, /) -> int: ...


@dataclass(frozen=True)
class Entry:
    """A file of a cpio: ``mode`` with its kind, ``data`` or where it leads to."""

    path: str
    mode: int
    data: bytes = b""
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    device: tuple[int, int] = (0, 0)


def cpio(entries: Iterator[Entry], target: Target) -> None:
    """Write a cpio as the kernel unpacks it, in the form newc."""
    for number, each in enumerate(entries, 1):
        target.write(_packed(each, number))
    target.write(_packed(Entry("TRAILER!!!", 0), 0))


def _packed(entry: Entry, number: int) -> bytes:
    name = entry.path.encode() + b"\0"
    fields = (
        number, entry.mode, entry.uid, entry.gid, 1, entry.mtime, len(entry.data), 0, 0, *entry.device, len(name), 0
    )  # fmt: skip
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return head + b"\0" * (-len(head) % 4) + entry.data + b"\0" * (-len(entry.data) % 4)


def write_root(root: Path, target: Target) -> None:
    """Write the files of a root as a cpio; of some folders nothing but themselves."""
    cpio(_entries(root, root), target)


def _entries(folder: Path, root: Path) -> Iterator[Entry]:
    for path in sorted(folder.iterdir()):
        told = path.lstat()
        name = str(path.relative_to(root))
        device = os.major(told.st_rdev), os.minor(told.st_rdev)
        data = b""
        if stat.S_ISLNK(told.st_mode):
            data = os.readlink(path).encode()
        elif stat.S_ISREG(told.st_mode):
            data = path.read_bytes()
        yield Entry(name, told.st_mode, data, told.st_uid, told.st_gid, int(told.st_mtime), device)
        if stat.S_ISDIR(told.st_mode) and name not in _LEFT_OUT:
            yield from _entries(path, root)


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
