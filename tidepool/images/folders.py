"""Folders of a person's that an image takes in: software that no registry has, built elsewhere. A recipe names them by a word.

A variable of the environment says where a folder is, ``TIDEPOOL_FOLDER_FLUX=/srv/flux`` for ``flux``; no recipe, lock or image does.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.images.errors import ImageError

#: Python writes it beside what it imports, and another one each time.
_LEFT_OUT: Final = "__pycache__"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that a recipe names, as it is now. ``sha256`` is that of all in it, in hexadecimal digits."""

    name: str
    path: Path
    sha256: str


def variable(name: str) -> str:
    """Return the variable that says where the folder ``name`` is."""
    return f"TIDEPOOL_FOLDER_{name.upper()}"


def find_folder(name: str, environment: Mapping[str, str]) -> Folder:
    """Return the folder that ``environment`` names; reads all of it.

    Raises:
        ImageError: it names none, or none that can be taken.
    """
    named = environment.get(variable(name), "")
    if not named:
        raise ImageError(
            f"{variable(name)} does not say where the folder {name} is, which no registry has; "
            f"set it to the folder whose files the image is to have (docs/images.md#folders)"
        )
    path = Path(named).absolute()
    if not path.is_dir():
        raise ImageError(
            f"{path}, which {variable(name)} names, is no folder; set {variable(name)} to one that is there"
        )
    sha256 = folder_sha256(path)
    if sha256 == hashlib.sha256().hexdigest():
        raise ImageError(
            f"{path}, which {variable(name)} names, has no file; install into it what the image is to have"
        )
    return Folder(name, path, sha256)


def folder_sha256(folder: Path) -> str:
    """Return the digest of the files and links in ``folder``: their paths, content, and whether they can be run; not of owners and times.

    Raises:
        ImageError: something in it is neither file, link nor folder, or cannot be read.
    """
    total = hashlib.sha256()
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            total.update(f"link {name}\0{os.readlink(path)}\0".encode())
        else:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            total.update(f"file {name}\0{_mode(path):o} {digest}\0".encode())
    return total.hexdigest()


def copy_folder(folder: Folder, target: Path) -> None:
    """Copy the folder to ``target``, which is a folder or is not there: all is root's, and nothing is writable by others.

    Raises:
        ImageError: it is not what it was when it was found.
    """
    for path in _files(folder.path):
        copy = target / path.relative_to(folder.path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.unlink(missing_ok=True)
        if path.is_symlink():
            copy.symlink_to(os.readlink(path))
        else:
            shutil.copyfile(path, copy)
            copy.chmod(_mode(path))
    if folder_sha256(target) != folder.sha256:
        raise ImageError(
            f"{folder.path} became another while the image was built, or {target} was not empty: build it again"
        )


def _mode(path: Path) -> int:
    return 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644


def _files(folder: Path) -> Iterator[Path]:
    """Yield files and links in one order."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_symlink() or entry.is_file():
            yield Path(entry.path)
        elif not entry.is_dir():
            raise ImageError(f"{entry.path} is no file, link or folder; an image takes no other: remove it")
        elif entry.name != _LEFT_OUT:
            yield from _files(Path(entry.path))
