"""Errors of images. Each text is for a person: what, where, what is allowed, the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class ImageError(Exception):
    """Something about an image is wrong. Its text is shown as it is, without a traceback."""


class RecipeError(ImageError):
    """A recipe with mistakes: all of them, each with its key, the value and what is allowed."""

    def __init__(self, origin: str, mistakes: Sequence[str]) -> None:
        self.origin = origin
        self.mistakes = tuple(mistakes)
        count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        super().__init__("\n".join([f"{origin}: {count}", *(f"  {mistake}" for mistake in mistakes)]))


class LockError(ImageError):
    """A lock that cannot be read, or that was made for another recipe or another architecture."""


class MirrorError(ImageError):
    """The machine's mirror does not have what is wanted, or does not answer."""


class MirrorSilent(MirrorError):
    """The machine's mirror does not answer, or gives nothing that apt takes."""


class MissingTool(ImageError):
    """A program that the machine lacks."""


class BuildFailed(ImageError):
    """A command of a build failed, or took too long. ``log`` is kept, and holds all that was said."""

    def __init__(self, what: str, log: Path, last_lines: Sequence[str]) -> None:
        self.log = log
        self.last_lines = tuple(last_lines)
        said = "".join(f"\n  {line}" for line in last_lines)
        super().__init__(f"{what}; all that was said is in {log}, which ends:{said}")
