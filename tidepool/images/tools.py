"""Puts the tools of the toolchain into an image, and the containers that are made of them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tidepool.images.containers import archive, place_of
from tidepool.images.errors import ImageError
from tidepool.images.inside import inside
from tidepool.images.source import ImageSource


def place_tools(root: Path, source: ImageSource) -> None:
    """Put them in their places, with the folders on the way.

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
        _write(root, place_of(name), made, 0o644)


def _read(path: Path, sha256: str) -> bytes:
    read = path.read_bytes()
    if hashlib.sha256(read).hexdigest() != sha256:
        raise ImageError(f"{path} became another while the image was built: build it again")
    return read


def _of_image(root: Path, path: str, container: str) -> bytes:
    # Debian's /bin is a link into /usr.
    place = inside(root, path)
    if not place.is_file() or place.is_symlink():
        raise ImageError(f"the container {container} asks for {path}, which is no file of the image")
    return place.read_bytes()


def _write(root: Path, path: str, content: bytes, mode: int) -> None:
    place = inside(root, path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    os.chown(place, 0, 0)
    place.chmod(mode)
