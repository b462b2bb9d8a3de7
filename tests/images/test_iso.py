"""The image debian-12-metal as an ISO: the same bytes wherever it is made. That it boots: tests/whole/test_metal_boots.py."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden import golden_image
from tidepool.images import Image, Machine
from tidepool.images.iso import SEED_BYTES, inside, seed_at, write_iso
from tidepool.images.writer import Writer

pytestmark = pytest.mark.slow

#: Of the root, what is made into an ISO beside the squashfs; some files of that.
PARTS = (
    "etc",
    "usr/bin/grub-mkimage",
    "usr/lib/grub",
    "usr/lib/klibc*",
    "usr/lib/modules/*/kernel/drivers/block/loop.ko",
    "usr/lib/modules/*/kernel/fs/overlayfs/overlay.ko",
    "usr/lib/modules/*/kernel/fs/squashfs/squashfs.ko",
    "usr/lib/x86_64-linux-gnu/ld-*",
    "usr/lib/x86_64-linux-gnu/libc.so*",
    "usr/lib/x86_64-linux-gnu/libdevmapper*",
    "usr/lib/x86_64-linux-gnu/liblzma*",
    "usr/lib/x86_64-linux-gnu/lib[mpsu]*.so*",
)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image with a root that is quick to pack."""
    if missing := [name for name in ("mksquashfs", "xorriso", "mformat") if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed (squashfs-tools, xorriso, mtools)")
    whole = golden_image("debian-12-metal")
    return small(whole, tmp_path_factory.mktemp("one") / "image")


def small(whole: Image, folder: Path) -> Image:
    root = folder / "root"
    for pattern in PARTS:
        for path in whole.root.glob(pattern):
            to = root / path.relative_to(whole.root)
            to.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", path, to], check=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(os.readlink(whole.root / name))
    subprocess.run(["cp", "-a", whole.root / "usr/lib64", root / "usr"], check=True)
    kernel = inside(whole.root, "vmlinuz")
    (root / "boot").mkdir()
    shutil.copy2(kernel, root / "boot" / kernel.name)
    (root / "vmlinuz").symlink_to(f"boot/{kernel.name}")
    # When a root is made is not when its files are from.
    for path in (root, *(each for each in root.rglob("*") if each.is_dir() and not each.is_symlink())):
        os.utime(path, (whole.epoch, whole.epoch))
    return replace(whole, folder=folder)


@pytest.fixture(scope="module")
def iso(image: Image) -> Path:
    return write(image)


def write(image: Image) -> Path:
    target = image.folder / "image.iso"
    with (image.folder / "lock").open("w") as lock:
        write_iso(Writer(image, "iso", Machine(dict(os.environ)), lock.fileno()), target)
    return target


def test_the_same_image_is_the_same_iso_in_another_place_at_another_time(
    image: Image, iso: Path, tmp_path: Path
) -> None:
    other = replace(image, folder=tmp_path / "another")
    subprocess.run(["cp", "-a", image.folder, other.folder], check=True)
    (other.folder / "image.iso").unlink()
    assert write(other).read_bytes() == iso.read_bytes()


def test_it_has_room_for_a_seed_and_loaders_for_both_firmwares(iso: Path) -> None:
    with iso.open("rb") as file:
        file.seek(seed_at(iso))
        assert file.read(SEED_BYTES) == bytes(SEED_BYTES)
    told = subprocess.run(
        ["xorriso", "-indev", iso, "-report_el_torito", "plain"], check=True, capture_output=True, text=True
    ).stdout
    assert [line.split()[6] for line in told.splitlines() if line.startswith("El Torito boot img :")] == [
        "BIOS",
        "UEFI",
    ]
