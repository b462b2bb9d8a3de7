"""Layout of a bootable disk, and the bytes of its first boot loader. Pure.

MBR          boot.img, which reads core.img; the protective table of a GPT
1 MiB        core.img, in the partition that GPT has for it
2 MiB        the EFI system partition: EFI/BOOT/BOOTX64.EFI
64 MiB       the root
at its end   the copy of the table
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import Final, Literal

SECTOR: Final = 512
MIB: Final = 2**20

#: What the boot loaders are in an image's root; a role puts them there.
LOADERS: Final = "usr/lib/tidepool/boot"
BOOT_IMG: Final = "boot.img"
CORE_IMG: Final = "core.img"
EFI: Final = "bootx64.efi"
#: Where firmware looks for a loader on a disk that it does not know.
EFI_PLACE: Final = ("EFI", "BOOT", "BOOTX64.EFI")

#: Of names made from a digest (RFC 9562, version 5), so that an image's disk and file system have one identity.
NAMES: Final = uuid.UUID("6f3d2a52-6c3b-5f0e-9c06-3f8a3f0d1c7e")
#: Of boot.img, what is code; the rest of a sector is the disk's table. GRUB 2, boot.S and diskboot.S.
_CODE: Final = 440
_CORE_SECTOR: Final = 0x5C
_DRIVE_CHECK: Final = 0x66
_BLOCK_LIST: Final = SECTOR - 12
_SEGMENT: Final = 0x820

Kind = Literal["bios", "efi", "root"]
#: GPT's types of partitions.
_TYPES: Final[dict[Kind, str]] = {
    "bios": "21686148-6449-6E6F-744E-656564454649",
    "efi": "C12A7328-F81F-11D2-BA4B-00A0C93EC93B",
    "root": "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709",
}


@dataclass(frozen=True)
class Partition:
    """``begin`` and ``size`` in bytes, of whole sectors."""

    kind: Kind
    begin: int
    size: int


@dataclass(frozen=True)
class Layout:
    """A disk of ``size`` bytes, and its partitions in their order."""

    size: int
    bios: Partition
    efi: Partition
    root: Partition

    @classmethod
    def around(cls, root_bytes: int) -> Layout:
        root = Partition("root", 64 * MIB, root_bytes)
        return cls(
            root.begin + root_bytes + MIB,
            Partition("bios", MIB, MIB),
            Partition("efi", 2 * MIB, 62 * MIB),
            root,
        )

    @classmethod
    def of(cls, size: int) -> Layout:
        """Return the layout of a disk that has so many bytes."""
        return cls.around(size - cls.around(0).size)

    def script(self, digest: str) -> str:
        """Return the table as `sfdisk` reads it; its names are made of the image's digest."""
        head = ("label: gpt", f"label-id: {_name(digest, 'disk')}", "unit: sectors")
        parts = (
            f"start={part.begin // SECTOR}, size={part.size // SECTOR}, type={_TYPES[part.kind]}, "
            f'uuid={_name(digest, part.kind)}, name="{part.kind}"'
            for part in (self.bios, self.efi, self.root)
        )
        return "\n".join([*head, *parts, ""])


def efi_serial(digest: str) -> str:
    """Return the serial number of the EFI system partition's file system: 8 hexadecimal digits."""
    return digest[:8]


def first_sector(boot_img: bytes, now: bytes, core_at: int) -> bytes:
    """Return the disk's first sector: the code of ``boot_img``, that reads core.img from byte ``core_at``, and ``now``'s table."""
    code = bytearray(boot_img[:_CODE])
    struct.pack_into("<Q", code, _CORE_SECTOR, core_at // SECTOR)
    # As grub-install does on disks: whatever drive the firmware names, it is the one that was booted from.
    code[_DRIVE_CHECK : _DRIVE_CHECK + 2] = b"\x90\x90"
    return bytes(code) + now[_CODE:SECTOR]


def core_at(core_img: bytes, begin: int) -> bytes:
    """Return ``core_img`` for the byte ``begin`` of a disk: its first sector names those of the others."""
    core = bytearray(core_img + b"\0" * (-len(core_img) % SECTOR))
    sectors = len(core) // SECTOR - 1
    struct.pack_into("<QHH", core, _BLOCK_LIST, begin // SECTOR + 1, sectors, _SEGMENT)
    return bytes(core)


def _name(digest: str, what: str) -> str:
    return str(uuid.uuid5(NAMES, f"{digest} {what}")).upper()
