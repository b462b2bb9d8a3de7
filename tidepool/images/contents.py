"""The content of an image's root: tools, containers made of them, folders and the recipe's files come, and traces go.

A path of the image must not lead out of its root: an absolute link there means the image's, not ours.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidepool.images.containers import archive, archive_path
from tidepool.images.errors import ImageError
from tidepool.images.folders import copy_folder
from tidepool.images.recipe import FileText
from tidepool.images.source import ImageSource


def inside(root: Path, path: str) -> Path:
    """Return the path on this machine of the image's ``path``.

    Raises:
        ImageError: a folder on the way is a symbolic link, which could lead anywhere.
    """
    target = root
    *folders, name = path.strip("/").split("/")
    for folder in folders:
        target = target / folder
        if target.is_symlink():
            raise ImageError(
                f"{path}: /{target.relative_to(root)} is a symbolic link in the image; name what it leads to"
            )
    return target / name


def write_tools(root: Path, source: ImageSource) -> None:
    """Write the tools and the containers, with the folders on the way.

    Raises:
        ImageError: a tool is not what it was when the source was read, or a container asks for a file that is not there.
    """
    tools = {tool.name: _read(tool.path, tool.sha256) for tool in source.tools}
    recipe = source.recipe
    for path, tool in recipe.tools.items():
        _write(root, path, tools[tool], 0o755)
    for name, container in recipe.containers.items():
        made = archive(
            name,
            container,
            architecture=source.lock.architecture,
            epoch=source.lock.epoch,
            tool=tools.__getitem__,
            file=lambda path, name=name: _of_image(root, path, name),  # type: ignore[misc]
        )
        _write(root, archive_path(name), made, 0o644)


def write_folders(root: Path, source: ImageSource) -> None:
    """Copy the folders of a person's into the image, with the folders on the way.

    Raises:
        ImageError: one is not what it was when the source was read, or the image has files of its own in its place.
    """
    folders = {folder.name: folder for folder in source.folders}
    for path, name in source.recipe.folders.items():
        copy_folder(folders[name], inside(root, path))


def write_files(root: Path, files: Mapping[str, FileText]) -> None:
    """Write the recipe's files into the image, with the folders on the way."""
    for path, file in files.items():
        _write(root, path, file.text.encode(), int(file.mode, 8), file.uid, file.gid)


def _read(path: Path, sha256: str) -> bytes:
    read = path.read_bytes()
    if hashlib.sha256(read).hexdigest() != sha256:
        raise ImageError(f"{path} became another while the image was built: build it again")
    return read


def _of_image(root: Path, path: str, container: str) -> bytes:
    # Debian's /bin is a link into /usr.
    target = inside(root, path)
    if not target.is_file() or target.is_symlink():
        raise ImageError(f"the container {container} asks for {path}, which is no file of the image")
    return target.read_bytes()


def _write(root: Path, path: str, content: bytes, mode: int, uid: int = 0, gid: int = 0) -> None:
    target = inside(root, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    target.write_bytes(content)
    os.chown(target, uid, gid)
    target.chmod(mode)


#: Each machine makes its own at its first start.
_PER_MACHINE: Final = (
    "etc/ssh/ssh_host_*",
    "etc/munge/munge.key",
    "var/lib/munge/*",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed",
)
#: Traces of the build, and of the machine that it ran on.
_TRACES: Final = (
    "etc/hostname",
    "etc/resolv.conf",
    "etc/hosts",
    "etc/.pwd.lock",
    "etc/*-",
    "etc/apt/sources.list",
    "etc/apt/sources.list.d/*",
    "etc/apt/apt.conf.d/*mmdebstrap*",
    "var/cache/apt/*",
    "var/cache/debconf/*-old",
    "var/cache/ldconfig/aux-cache",
    "var/lib/apt/lists/*",
    "var/lib/apt/extended_states",
    "var/lib/dpkg/*-old",
    "root/.ansible",
    "root/.cache",
    "dev/*",
    "proc/*",
    "run/*",
    "sys/*",
    "tmp/*",
    "tmp/.*",
    "var/tmp/*",
)
_NO_SOURCES: Final = "# Set this to the mirror of the site that this machine stands at.\n"
_DPKG_OPTIONS: Final = "etc/dpkg/dpkg.cfg.d/99mmdebstrap"


def clean(root: Path, epoch: int) -> int:
    """Clean ``root``, set what is younger than ``epoch`` (s since 1970) back to it; give the bytes of its files."""
    for pattern in (*_PER_MACHINE, *_TRACES):
        for path in root.glob(pattern):
            _remove(root, path)
    for folder, _, names in os.walk(inside(root, "var/log")):
        for name in names:
            (Path(folder) / name).unlink()
    inside(root, "etc/machine-id").write_text("")
    if (root / "etc/apt").is_dir():
        inside(root, "etc/apt/sources.list").write_text(_NO_SOURCES)
    _clean_dpkg_options(root)
    return _set_times(root, epoch)


def _remove(root: Path, path: Path) -> None:
    path = inside(root, str(path.relative_to(root)))
    if path.is_dir() and not path.is_symlink():
        if os.path.ismount(path):
            raise ImageError(f"{path} is still mounted: unmount it, and build again")
        shutil.rmtree(path)
    else:
        path.unlink()


def _clean_dpkg_options(root: Path) -> None:
    """Keep the paths that are left out, for packages installed later; haste was for the build alone."""
    path = root / _DPKG_OPTIONS
    if path.exists():
        kept = [line for line in path.read_text().splitlines(keepends=True) if line.startswith("path-")]
        path.unlink()
        if kept:
            path.with_name("leave-out").write_text("".join(kept))


def _set_times(root: Path, epoch: int) -> int:
    total = 0
    seen: set[int] = set()
    for folder, _, _ in os.walk(root, topdown=False):
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_ino not in seen:
                    seen.add(status.st_ino)
                    total += status.st_size
                _set_time(entry.path, status, epoch)
    _set_time(str(root), root.stat(), epoch)
    return total


def _set_time(path: str, status: os.stat_result, epoch: int) -> None:
    # Whole seconds: not every form of an image keeps the rest.
    mtime = min(int(status.st_mtime), epoch)
    os.utime(path, (mtime, mtime), follow_symlinks=False)
