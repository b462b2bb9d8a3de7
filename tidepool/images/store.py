"""The folder that holds images and the packages they are made of.

    <digest>/               a whole image: root/, manifest.json, packages.lock, build.log, image.tar, image.ext4
    <digest>.partial/       one that is being built, or whose build was cut off
    locks/<digest>          held by who builds it
    logs/<digest>.log       what a build said, kept where it failed
    debs/<sha256>.deb       packages
    renewed/<sha256>.lock   the lock by which an image is built here, by the digest of its recipe's lock
    mirror/<key>/           lists of a mirror, by the digest of its package sources

An image is whole when its folder has its name, as that is given last. A lock is held by open descriptors, which
the programs of a build inherit: while anything of a build that was killed still runs, nobody else begins.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.cluster.roles import ROLES, Role
from tidepool.images.errors import ImageError, LockError
from tidepool.images.locked import InstalledPackage, Lock, LockedPackage, parse_lock, render_lock
from tidepool.toolchain.file_lock import StillHeld, file_lock

_MANIFEST: Final = "manifest.json"
#: The file of a lock, in a recipe's folder and in an image's.
LOCK_FILE: Final = "packages.lock"
#: For another who asks a mirror, and downloads from it.
_MIRROR_S: Final = 900.0


_TIMES: Final = "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime"


#: By role its packages, and its tools; `pause` is in the first container of each pod.
_NEEDS: Final[Mapping[Role, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "slurm": (("munge", "slurmd"), ()),
    "kubernetes": (("containerd", "containernetworking-plugins", "runc"), ("kubelet", "pause")),
}


def lacking(role: Role, packages: Collection[str], tools: Collection[str]) -> tuple[str, ...]:
    """Return what an image of these packages and tools lacks to serve ``role``; nothing where it holds it."""
    needed_packages, needed_tools = _NEEDS[role]
    return (
        *(f"package {name}" for name in needed_packages if name not in packages),
        *(f"tool {name}" for name in needed_tools if name not in tools),
    )


@dataclass(frozen=True)
class Image:
    """A whole image. ``root`` is its unpacked file system, which nobody may write to; sizes are in bytes."""

    digest: str
    folder: Path
    name: str
    release: str
    architecture: str
    epoch: int
    size_mib: int
    root_bytes: int
    packages: tuple[InstalledPackage, ...]
    #: Those of the toolchain that are in it.
    tools: tuple[str, ...] = ()
    #: Of its root as a tar, when it was built; empty where nobody recorded it.
    root_sha256: str = ""

    @property
    def holds(self) -> tuple[Role, ...]:
        """The roles of converged pools that a machine of it can have."""
        names = {package.name for package in self.packages}
        return tuple(role for role in ROLES if not lacking(role, names, self.tools))

    @property
    def root(self) -> Path:
        return self.folder / "root"


@dataclass(frozen=True)
class ImageStore:
    """The images in ``folder``."""

    folder: Path

    def find(self, digest: str) -> Image | None:
        """Return the image of that digest, where it is there and whole; takes about a millisecond."""
        folder = self.folder / digest
        try:
            fields = json.loads((folder / _MANIFEST).read_text())
        except FileNotFoundError:
            return None
        packages = tuple(InstalledPackage(*package) for package in fields.pop("packages"))
        tools = tuple(fields.pop("tools", ()))
        return Image(**fields, folder=folder, packages=packages, tools=tools)

    def images(self) -> tuple[Image, ...]:
        names = sorted(entry.name for entry in self.folder.iterdir()) if self.folder.is_dir() else []
        return tuple(image for name in names if len(name) == 64 and (image := self.find(name)) is not None)

    def newest(self) -> dict[str, Image]:
        """Return by name the image of it that was built last."""
        built = sorted(self.images(), key=lambda image: image.folder.stat().st_mtime)
        return {image.name: image for image in built}

    def partial(self, digest: str) -> Path:
        return self.folder / f"{digest}.partial"

    def log(self, digest: str) -> Path:
        """Return the file of all that its build says."""
        path = self.folder / "logs" / f"{digest}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def deb(self, sha256: str) -> Path:
        return self.folder / "debs" / f"{sha256}.deb"

    def missing(self, packages: Iterable[LockedPackage]) -> tuple[LockedPackage, ...]:
        """Return those of the packages whose files are not here, or not in their size."""
        return tuple(package for package in packages if _size(self.deb(package.sha256)) != package.size)

    def lock_key(self, lock: Lock) -> str:
        """Return the digest of a recipe's lock, by which the one that is kept for it is found."""
        return hashlib.sha256(render_lock(lock).encode()).hexdigest()

    def renewed_lock(self, lock: Lock) -> Lock | None:
        """Return the lock that was resolved here when the mirror had moved on from the recipe's ``lock``."""
        return _read_lock(self._renewed_path(lock))

    def save_renewed_lock(self, lock: Lock, renewed: Lock) -> None:
        """Save ``renewed`` for the recipe's ``lock``, on disk before anything is made from it."""
        path = self._renewed_path(lock)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, render_lock(renewed))

    def _renewed_path(self, lock: Lock) -> Path:
        return self.folder / "renewed" / f"{self.lock_key(lock)}.lock"

    @contextmanager
    def mirror(self, key: str) -> Iterator[Path]:
        """Give the folder of a mirror's lists; one process at a time has it."""
        folder = self.folder / "mirror" / key
        folder.mkdir(parents=True, exist_ok=True)
        with self.locked(f"mirror-{key}", on_wait=lambda: None, timeout_s=_MIRROR_S):
            yield folder

    def packages(self) -> tuple[Path, ...]:
        return tuple(sorted((self.folder / "debs").glob("*.deb")))

    def unused(self, locks: Iterable[Lock]) -> tuple[Path, ...]:
        """Return the packages and resolved locks that neither ``locks``, those of recipes, nor images here ask for."""
        needed = list(locks)
        keys = {self.lock_key(lock) for lock in needed}
        needed += (lock for path in self.folder.glob(f"*/{LOCK_FILE}") if (lock := _read_lock(path)))
        of_no_image = []
        for path in sorted((self.folder / "renewed").glob("*.lock")):
            lock = _read_lock(path)
            if lock is not None and (path.stem in keys or lock in needed):
                needed.append(lock)
            else:
                of_no_image.append(path)
        names = {package.sha256 for lock in needed for package in lock.packages}
        return (*(path for path in self.packages() if path.stem not in names), *of_no_image)

    def clear(self, locks: Iterable[Lock]) -> tuple[Path, ...]:
        """Remove what is `unused`, and the lists of mirrors, which are fetched anew; gives the former."""
        gone = self.unused(locks)
        for path in gone:
            path.unlink(missing_ok=True)
        for folder in (self.folder / "mirror").glob("*"):
            with self.mirror(folder.name):
                shutil.rmtree(folder)
        return gone

    def finish(self, digest: str, manifest: Mapping[str, object]) -> Image:
        """Make what is in the partial folder a whole image: on disk first, then by its name."""
        partial = self.partial(digest)
        (partial / _MANIFEST).write_text(json.dumps({"digest": digest, **manifest}, indent=1) + "\n")
        # Nothing of a build was flushed before; other disks are nobody's business here.
        command = ["sync", "--file-system", str(partial)]
        subprocess.run(command, check=True)
        partial.rename(self.folder / digest)
        image = self.find(digest)
        assert image is not None
        return image

    def remove(self, digest: str) -> None:
        """Remove an image, whole or not. What machines stand on its root is the caller's to know."""
        whole = self.folder / digest
        if whole.exists():
            # Not whole from this moment on.
            self.clear_partial(digest)
            whole.rename(self.partial(digest))
        self.clear_partial(digest)

    def clear_partial(self, digest: str) -> None:
        """Remove what a build that was cut off left; the lock must be held."""
        if self.partial(digest).exists():
            shutil.rmtree(self.partial(digest))

    @contextmanager
    def locked(self, digest: str, *, on_wait: Callable[[], None], timeout_s: float) -> Iterator[int]:
        """Be the only one who works on the image of that digest, or on what else has that name.

        Gives the descriptor that holds the lock.

        Raises:
            ImageError: another held it for longer than ``timeout_s``.
        """
        path = self.folder / "locks" / digest
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with file_lock(path, timeout_s, on_wait) as descriptor:
                yield descriptor
        except StillHeld as error:
            raise ImageError(f"another is at work on {digest[:20]}: {error}") from error


def default_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of a person's images, in the XDG data folder."""
    data = environment.get("XDG_DATA_HOME") or str(Path(environment.get("HOME", "/root")) / ".local/share")
    return Path(data) / "tidepool" / "images"


def tar_command(root: Path, target: str) -> list[str]:
    """Return the command that writes all of ``root`` to the file ``target``; `-` is standard output."""
    command = ["tar", "--create", f"--file={target}", f"--directory={root}", "--format=posix", "--sort=name"]
    return [*command, "--numeric-owner", "--xattrs", "--xattrs-include=*", _TIMES, "."]


def root_sha256(root: Path) -> str:
    """Return the digest of ``root`` as a tar, in hexadecimal digits; nothing is written. A second for each GiB.

    Raises:
        ImageError: something of it cannot be read.
    """
    digest = hashlib.sha256()
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(tar_command(root, "-"), stdout=subprocess.PIPE, stderr=said) as tar:
            assert tar.stdout is not None
            while chunk := tar.stdout.read(2**20):
                digest.update(chunk)
        if tar.returncode != 0:
            said.seek(0)
            last = said.read().decode(errors="replace").strip().splitlines()[-1:]
            raise ImageError(f"{root} cannot be read to its end: {''.join(last) or f'tar: {tar.returncode}'}")
    return digest.hexdigest()


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there as a whole or not at all, and on disk when it is."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with partial.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


_ZEROS: Final = bytes(2**20)


def sha256_of(path: Path) -> str:
    """Return the digest of a file, in hexadecimal digits. Holes, which a disk mostly is, are not read, but known to be zeros."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        size, at = os.fstat(file.fileno()).st_size, 0
        while at < size:
            try:
                begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
                end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                begin = end = size  # nothing but a hole is left
            for left in range(begin - at, 0, -len(_ZEROS)):
                digest.update(_ZEROS[:left])
            file.seek(begin)
            at = begin
            while at < end and (chunk := file.read(min(end - at, len(_ZEROS)))):
                digest.update(chunk)
                at += len(chunk)
            if at < end:
                raise ImageError(f"{path} became shorter while it was read")
    return digest.hexdigest()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def _read_lock(path: Path) -> Lock | None:
    try:
        return parse_lock(path.read_text(), origin=str(path))
    except (FileNotFoundError, LockError):
        return None
