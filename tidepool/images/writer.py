"""Writes forms of an image: an ext4 file system, a disk that boots, a container image. In files: no device, no mount.

Programs run without a network at the image's own time. The container image is an OCI layout, as one tar:
`ctr images import`, `podman load`, `docker load` and `skopeo copy oci-archive:...` read it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import tarfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidepool.images.containers import created, image_configuration, to_json, word_for
from tidepool.images.disk import (
    BOOT_IMG,
    CORE_IMG,
    EFI,
    EFI_PLACE,
    LOADERS,
    NAMES,
    SECTOR,
    Layout,
    core_at,
    efi_serial,
    first_sector,
)
from tidepool.images.errors import BuildFailed, ImageError
from tidepool.images.machine import Machine, run
from tidepool.images.store import Image, sha256_of

WRITE_S: Final = 900.0
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
        return self.image.folder / "build.log"

    def run(self, command: list[str], *, stdin: Path | None = None) -> str:
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
    name = str(uuid.uuid5(NAMES, image.digest))
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


_CHUNK: Final = 2**20
#: Above it bytes are few percent fewer, and take three times as long.
_LEVEL: Final = 4
_MEDIA: Final = "application/vnd.oci.image"


def write_oci(image: Image, tar: Path, tar_sha256: str, target: Path) -> None:
    """Write ``target`` from the image's tar; the same bytes for the same tar and the same release of zlib."""
    layer = target.with_name(f"{target.name}.layer")
    try:
        layer_sha256 = _pack(tar, layer)
        platform = {"architecture": word_for(image.architecture), "os": "linux"}
        notes = {
            "org.opencontainers.image.created": created(image.epoch),
            "org.opencontainers.image.title": image.name,
            "org.opencontainers.image.version": image.digest[:12],
            "tidepool.image": image.digest,
        }
        config = {"Cmd": ["/bin/bash"], "Labels": notes}
        made_by = f"tidepool image {image.name} of Debian {image.release}"
        configuration = image_configuration(image.architecture, image.epoch, config, tar_sha256, made_by)
        manifest = to_json(
            {
                "schemaVersion": 2,
                "mediaType": f"{_MEDIA}.manifest.v1+json",
                "config": _described("config.v1+json", configuration),
                "layers": [_descriptor("layer.v1.tar+gzip", layer_sha256, layer.stat().st_size)],
                "annotations": notes,
            }
        )
        reference = {
            "org.opencontainers.image.ref.name": image.digest[:12],
            "io.containerd.image.name": f"docker.io/tidepool/{image.name}:{image.digest[:12]}",
        }
        index = to_json(
            {
                "schemaVersion": 2,
                "mediaType": f"{_MEDIA}.index.v1+json",
                "manifests": [
                    {
                        **_described("manifest.v1+json", manifest),
                        "platform": platform,
                        "annotations": reference,
                    }
                ],
            }
        )
        small = {
            "oci-layout": to_json({"imageLayoutVersion": "1.0.0"}),
            "index.json": index,
            _blob(configuration): configuration,
            _blob(manifest): manifest,
        }
        with target.open("wb") as file:
            _write(file, small, {f"blobs/sha256/{layer_sha256}": layer}, image.epoch)
    finally:
        layer.unlink(missing_ok=True)


def _pack(tar: Path, layer: Path) -> str:
    with (
        tar.open("rb") as plain,
        layer.open("wb") as written,
        gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=written, mtime=0) as packed,
    ):
        shutil.copyfileobj(plain, packed, _CHUNK)
    return sha256_of(layer)


def _write(file: Any, small: Mapping[str, bytes], large: Mapping[str, Path], epoch: int) -> None:
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for folder in ("blobs", "blobs/sha256"):
            entry = _entry(folder, 0, epoch)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name, content in sorted(small.items()):
            tar.addfile(_entry(name, len(content), epoch), io.BytesIO(content))
        for name, path in large.items():
            with path.open("rb") as opened:
                tar.addfile(_entry(name, path.stat().st_size, epoch), opened)


def _entry(name: str, size: int, epoch: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, epoch, 0o644
    return entry


def _described(kind: str, content: bytes) -> dict[str, Any]:
    return _descriptor(kind, hashlib.sha256(content).hexdigest(), len(content))


def _descriptor(kind: str, sha256: str, size: int) -> dict[str, Any]:
    return {"mediaType": f"{_MEDIA}.{kind}", "digest": f"sha256:{sha256}", "size": size}


def _blob(content: bytes) -> str:
    return f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
