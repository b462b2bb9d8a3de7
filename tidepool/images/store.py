"""The folder that holds images and the packages they are made of.

    <digest>/           a whole image: root/, manifest.json, build.log, image.tar, image.ext4, image.qcow2
    <digest>.partial/   one that is being built, or whose build was cut off
    locks/<digest>      held by who builds it
    logs/<digest>.log   what a build said, kept where it failed
    debs/<sha256>.deb   packages

An image is whole when its folder has its name, as that is given last. A lock is held by open descriptors, which
the programs of a build inherit: while anything of a build that was killed still runs, nobody else begins.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.cluster.roles import Role
from tidepool.images.errors import ImageError
from tidepool.images.holding import roles_held
from tidepool.toolchain.file_lock import StillHeld, file_lock

_MANIFEST: Final = "manifest.json"


@dataclass(frozen=True)
class InstalledPackage:
    """A package of an image, as its dpkg knows it."""

    name: str
    version: str
    architecture: str


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
        return roles_held({package.name for package in self.packages}, self.tools)

    @property
    def root(self) -> Path:
        """The folder of its root: read-only below an overlay."""
        return self.folder / "root"


@dataclass(frozen=True)
class ImageStore:
    """The images in ``folder``."""

    folder: Path

    def find(self, digest: str) -> Image | None:
        """The image of that digest, where it is there and whole; takes about a millisecond."""
        folder = self.folder / digest
        try:
            fields = json.loads((folder / _MANIFEST).read_text())
        except FileNotFoundError:
            return None
        packages = tuple(InstalledPackage(*package) for package in fields.pop("packages"))
        tools = tuple(fields.pop("tools", ()))
        return Image(**fields, folder=folder, packages=packages, tools=tools)

    def images(self) -> tuple[Image, ...]:
        """All that are there and whole."""
        names = sorted(entry.name for entry in self.folder.iterdir()) if self.folder.is_dir() else []
        return tuple(image for name in names if len(name) == 64 and (image := self.find(name)) is not None)

    def partial(self, digest: str) -> Path:
        """Where the image is built."""
        return self.folder / f"{digest}.partial"

    def log(self, digest: str) -> Path:
        """What its build says."""
        path = self.folder / "logs" / f"{digest}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def deb(self, sha256: str) -> Path:
        """Where the package file of that digest is, or will be."""
        return self.folder / "debs" / f"{sha256}.deb"

    def finish(self, digest: str, manifest: Mapping[str, object]) -> Image:
        """Make what is in the partial folder a whole image: on disk first, then by its name."""
        partial = self.partial(digest)
        (partial / _MANIFEST).write_text(json.dumps({"digest": digest, **manifest}, indent=1) + "\n")
        os.sync()
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
        """Be the only one who builds the image; gives the descriptor that holds the lock.

        Raises:
            ImageError: another held it for longer than ``timeout_s``.
        """
        path = self.folder / "locks" / digest
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with file_lock(path, timeout_s, on_wait) as descriptor:
                yield descriptor
        except StillHeld as error:
            raise ImageError(f"another build of image {digest[:12]} goes on: {error}") from error


def default_folder(environment: Mapping[str, str]) -> Path:
    """Where a person's images are: in the XDG data folder."""
    data = environment.get("XDG_DATA_HOME") or str(Path(environment.get("HOME", "/root")) / ".local/share")
    return Path(data) / "tidepool" / "images"
