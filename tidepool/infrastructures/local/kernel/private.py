"""Folders and files that are nobody else's business."""

from __future__ import annotations

import os
from pathlib import Path


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are not there, each for its owner alone."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a file for its owner alone, replaced as a whole; folders above it are made."""
    make_private(path.parent)
    beside = path.with_suffix(".new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(beside, path)


def remove_private(path: Path, *, below: Path) -> None:
    """Remove such a file, what a writer left of it that died, and the folders above it that are empty, up to ``below``."""
    path.unlink(missing_ok=True)
    path.with_suffix(".new").unlink(missing_ok=True)
    remove_if_empty(path.parent, below=below)


def remove_if_empty(folder: Path, *, below: Path) -> None:
    """Remove a folder, and those above it up to ``below``, as long as there is nothing in them."""
    while folder != below and below in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            return  # it holds something, or somebody else removed it
        folder = folder.parent
