"""Puts files into an image's root: tools of the toolchain, containers that are made of them, and the recipe's files.

A path of the image must not lead out of its root: an absolute link there means the image's, not ours.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from tidepool.images.containers import archive, archive_path
from tidepool.images.errors import ImageError
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


def write_files(root: Path, files: Mapping[str, FileText]) -> None:
    """Write the recipe's files into the image, with the folders on the way."""
    for path, file in files.items():
        target = inside(root, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_text(file.text)
        os.chown(target, file.uid, file.gid)
        target.chmod(int(file.mode, 8))


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


def _write(root: Path, path: str, content: bytes, mode: int) -> None:
    target = inside(root, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    os.chown(target, 0, 0)
    target.chmod(mode)
