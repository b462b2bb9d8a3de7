"""Paths inside an image's root, which must not lead out of it: an absolute link there means the image's, not ours."""

from __future__ import annotations

from pathlib import Path

from tidepool.images.errors import ImageError


def inside(root: Path, path: str) -> Path:
    """Where ``path`` of the image lies on this machine.

    Raises:
        ImageError: a folder on the way is a symbolic link, which could lead anywhere.
    """
    place = root
    *folders, name = path.strip("/").split("/")
    for folder in folders:
        place = place / folder
        if place.is_symlink():
            raise ImageError(
                f"{path}: /{place.relative_to(root)} is a symbolic link in the image; name what it leads to"
            )
    return place / name
