"""All that decides what an image is: recipe, lock and roles, read from their folders, and the digest of them."""

from __future__ import annotations

import hashlib
import json
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.images.errors import LockError, RecipeError
from tidepool.images.locked import MAKE_ANEW, Lock, parse_lock, render_lock
from tidepool.images.recipe import Recipe, parse_recipe

#: Raised by whoever changes what the builder makes of the same recipe, lock and roles.
BUILDER: Final = 1

RECIPE_FILE: Final = "recipe.yaml"
LOCK_FILE: Final = "packages.lock"


@dataclass(frozen=True)
class RoleFile:
    """One file of a role: ``path`` within the roles' folder, ``sha256`` in hexadecimal digits."""

    path: str
    executable: bool
    sha256: str


@dataclass(frozen=True)
class ImageSource:
    """What an image is made from. ``playbooks`` is the folder that holds ``roles/``."""

    name: str
    recipe: Recipe
    lock: Lock
    role_files: tuple[RoleFile, ...]
    playbooks: Path

    @property
    def digest(self) -> str:
        """64 hexadecimal digits: the same for the same recipe, lock, roles and builder, wherever they lie."""
        decides = {
            "builder": BUILDER,
            "recipe": self.recipe.plain,
            "lock": render_lock(self.lock),
            "roles": [[file.path, file.executable, file.sha256] for file in self.role_files],
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def read_recipe(folder: Path, playbooks: Path) -> Recipe:
    """The recipe in ``folder``.

    Raises:
        RecipeError: it is not there, or has mistakes.
    """
    path = folder / RECIPE_FILE
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise RecipeError(str(path), ["there is no such file"]) from None
    roles = {entry.name for entry in (playbooks / "roles").glob("*/") if entry.is_dir()}
    return parse_recipe(text, origin=str(path), roles=roles)


def read_source(folder: Path, playbooks: Path, *, architecture: str) -> ImageSource:
    """What ``folder`` (of ``images/``) says, with the roles of ``playbooks``; takes a few milliseconds.

    Raises:
        RecipeError: the recipe has mistakes.
        LockError: there is no lock, or it is not of this recipe.
    """
    recipe = read_recipe(folder, playbooks)
    path = folder / LOCK_FILE
    try:
        lock = parse_lock(path.read_text(), origin=str(path))
    except FileNotFoundError:
        raise LockError(f"{path}: there is no lock beside the recipe. {MAKE_ANEW}") from None
    lock.check(recipe, architecture, str(path))
    files = tuple(file for role in sorted(recipe.roles) for file in _role_files(playbooks / "roles", role))
    return ImageSource(folder.name, recipe, lock, files, playbooks)


def _role_files(roles: Path, role: str) -> list[RoleFile]:
    found = []
    for path in sorted((roles / role).rglob("*")):
        if path.is_file():
            executable = bool(path.stat().st_mode & stat.S_IXUSR)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found.append(RoleFile(path.relative_to(roles).as_posix(), executable, digest))
    return found
