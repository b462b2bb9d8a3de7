"""Programs that a kernel starts first where the root is in memory: a shell of some kilobytes, three modules, and the mounts of a root.

The root is packed, and stays so: a squashfs that the kernel has in its initramfs, with whatever is written laid over it. What a
machine's seed puts below `UPPER` is over the image's files from the beginning, before systemd starts.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidepool.images.cpio import FILE, FOLDER, Entry
from tidepool.images.errors import ImageError

#: Of the root: what a kernel has beside it, and the boot loaders' own packages.
LEFT_OUT: Final = ("boot", "dev", "proc", "sys", "run", "tmp", "usr/lib/grub")
SQUASHFS: Final = "root.squashfs"
#: Where files are that are laid over the image's; each folder above one has to be among them.
UPPER: Final = "upper"

_KLIBC: Final = "usr/lib/klibc/bin"
_PROGRAMS: Final = ("chroot", "insmod", "losetup", "mount", "sh", "sleep")
_MODULES: Final = ("drivers/block/loop", "fs/squashfs/squashfs", "fs/overlayfs/overlay")
_FOLDERS: Final = ("bin", "dev", "lib", "lower", "root", UPPER, "work")
#: The initramfs stays below the root, which is not `switch_root`'s way: what is laid over the image is in it.
_INIT: Final = f"""\
#!/bin/sh
PATH=/bin
fail() {{ echo "tidepool: the root in memory cannot be made: $* failed" >/dev/console; sleep 30; exit 1; }}
try() {{ "$@" || fail "$*"; }}
try mount -t devtmpfs devtmpfs /dev
try insmod /lib/loop.ko
try insmod /lib/squashfs.ko
try insmod /lib/overlay.ko
try losetup /dev/loop0 /{SQUASHFS}
try mount -t squashfs -o ro /dev/loop0 /lower
try mount -t overlay -o lowerdir=/lower,upperdir=/{UPPER},workdir=/work overlay /root
try mount -o move /dev /root/dev
cd /root
try mount -o move . /
exec chroot . /sbin/init "$@" <dev/console >dev/console 2>&1
"""


def entries_of_init(root: Path) -> Iterator[Entry]:
    """Yield the files of the initramfs that makes the root, of an image's own.

    Raises:
        ImageError: the image lacks one of them.
    """
    for folder in _FOLDERS:
        yield Entry(folder, FOLDER | 0o755)
    yield Entry("init", FILE | 0o755, _INIT.encode())
    for name in _PROGRAMS:
        yield Entry(f"bin/{name}", FILE | 0o755, _only(root, f"{_KLIBC}/{name}").read_bytes())
    # What these programs are linked with, at the path that they name.
    library = _only(root, "usr/lib/klibc-*.so")
    yield Entry(f"lib/{library.name}", FILE | 0o755, library.read_bytes())
    for module in _MODULES:
        path = _only(root, f"usr/lib/modules/*/kernel/{module}.ko*")
        data = path.read_bytes()
        yield Entry(
            f"lib/{module.rpartition('/')[2]}.ko",
            FILE | 0o644,
            lzma.decompress(data) if path.suffix == ".xz" else data,
        )


def _only(root: Path, pattern: str) -> Path:
    found = sorted(root.glob(pattern))
    if len(found) != 1:
        raise ImageError(
            f"an image whose root is in memory has one {pattern}, and this one {len(found) or 'none'}: it comes with initramfs-tools and "
            "one kernel"
        )
    return found[0]
