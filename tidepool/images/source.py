"""Source of an image, all that decides what it is: recipe, lock and roles, read from their folders, and the digest of them."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.roles import Role
from tidepool.images.errors import ImageError, LockError, RecipeError
from tidepool.images.folders import Folder, find_folder
from tidepool.images.locked import MAKE_ANEW, Lock, parse_lock, render_lock
from tidepool.images.recipe import Recipe, parse_recipe
from tidepool.images.store import LOCK_FILE, lacking
from tidepool.toolchain import Tool, ToolchainError, find

#: Raised by whoever changes what the builder makes of the same recipe, lock and roles.
BUILDER: Final = 1

RECIPE_FILE: Final = "recipe.yaml"


@dataclass(frozen=True)
class RoleFile:
    """A file of a role: ``path`` within the roles' folder, ``sha256`` in hexadecimal digits."""

    path: str
    executable: bool
    sha256: str


@dataclass(frozen=True)
class ImageSource:
    """Source of an image. ``playbooks`` is the folder that holds ``roles/``."""

    name: str
    recipe: Recipe
    lock: Lock
    role_files: tuple[RoleFile, ...]
    playbooks: Path
    #: Those that the recipe names.
    tools: tuple[Tool, ...] = ()
    folders: tuple[Folder, ...] = ()

    @property
    def digest(self) -> str:
        """64 hexadecimal digits: the same for the same recipe, lock, roles and builder, wherever they lie."""
        decides: dict[str, Any] = {
            "builder": BUILDER,
            "recipe": self.recipe.plain,
            "lock": render_lock(self.lock),
            "roles": [[file.path, file.executable, file.sha256] for file in self.role_files],
        }
        if self.tools:
            decides["tools"] = {tool.name: tool.sha256 for tool in self.tools}
        if self.folders:
            decides["folders"] = {folder.name: folder.sha256 for folder in self.folders}
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()

    def lacking(self, role: Role) -> tuple[str, ...]:
        """Return what it lacks to hold ``role``, a word each; nothing where it does. Known before it is built."""
        return _lacking(role, self.recipe, self.lock)


def read_recipe(folder: Path, playbooks: Path) -> Recipe:
    """Read the recipe in ``folder``, with all that it extends: other recipes, whose folders are beside it.

    Raises:
        RecipeError: it or one of those is not there, or has mistakes.
    """
    roles = {entry.name for entry in (playbooks / "roles").glob("*/") if entry.is_dir()}
    return _recipe(folder, roles, ())


def _recipe(folder: Path, roles: Collection[str], above: tuple[str, ...]) -> Recipe:
    path = folder / RECIPE_FILE
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise RecipeError(str(path), ["there is no such file"]) from None
    names = (*above, folder.name)

    def base(name: str) -> Recipe:
        beside = {entry.parent.name for entry in folder.parent.glob(f"*/{RECIPE_FILE}")}
        if name in names or name not in beside:
            allowed = ", ".join(sorted(beside - set(names))) or "nothing, as there is no other"
            round_about = " (they would extend each other)" if name in names else ""
            raise ValueError(f"{allowed}{round_about}")
        return _recipe(folder.parent / name, roles, names)

    return parse_recipe(text, origin=str(path), roles=roles, base=base)


def read_lacks(folder: Path, playbooks: Path, role: Role) -> tuple[str, ...]:
    """Return what the image that ``folder`` describes lacks to hold ``role``, a word each; needs no toolchain.

    Raises:
        RecipeError: the recipe has mistakes.
        LockError: there is no lock, or none that can be read.
    """
    return _lacking(role, read_recipe(folder, playbooks), _read_lock(folder))


def holds_package(folder: Path, beginning: str) -> bool:
    """Return whether the lock in ``folder`` has a package whose name begins so.

    Raises:
        LockError: there is no lock, or none that can be read.
    """
    return any(package.name.startswith(beginning) for package in _read_lock(folder).packages)


def package_version(folder: Path, name: str) -> str:
    """Return the version of the package ``name`` in the lock in ``folder``; empty where it has no such package.

    Raises:
        LockError: there is no lock, or none that can be read.
    """
    return next((package.version for package in _read_lock(folder).packages if package.name == name), "")


def read_source(
    folder: Path, playbooks: Path, *, architecture: str, environment: Mapping[str, str]
) -> ImageSource:
    """Read the source in ``folder`` (of ``images/``), with the roles of ``playbooks``; takes a few milliseconds.

    ``environment`` says where the toolchain is, for a recipe that names tools: their digests take a moment more the
    first time; and where folders are, for one that names such.

    Raises:
        RecipeError: the recipe has mistakes.
        ImageError: it names tools, and the toolchain is not built; or a folder, and ``environment`` does not say where it is.
        LockError: there is no lock, or it is not of this recipe.
    """
    recipe, lock = read_recipe(folder, playbooks), _read_lock(folder)
    lock.check(recipe, architecture, str(folder / LOCK_FILE))
    files = tuple(file for role in sorted(recipe.roles) for file in _role_files(playbooks / "roles", role))
    tools = _tools(folder, recipe, environment)
    folders = _folders(folder, recipe, environment)
    return ImageSource(folder.name, recipe, lock, files, playbooks, tools, folders)


def _read_lock(folder: Path) -> Lock:
    path = folder / LOCK_FILE
    try:
        return parse_lock(path.read_text(), origin=str(path))
    except FileNotFoundError:
        raise LockError(f"{path}: there is no lock beside the recipe. {MAKE_ANEW}") from None


def _lacking(role: Role, recipe: Recipe, lock: Lock) -> tuple[str, ...]:
    return lacking(role, {package.name for package in lock.packages}, recipe.tool_names)


def _tools(folder: Path, recipe: Recipe, environment: Mapping[str, str]) -> tuple[Tool, ...]:
    names = recipe.tool_names
    if not names:
        return ()
    try:
        toolchain = find(environment)
        return tuple(toolchain.tool(name) for name in names)
    except ToolchainError as error:
        raise ImageError(f"image {folder.name} holds {', '.join(names)}. {error}") from error


def _folders(folder: Path, recipe: Recipe, environment: Mapping[str, str]) -> tuple[Folder, ...]:
    try:
        return tuple(find_folder(name, environment) for name in sorted(set(recipe.folders.values())))
    except ImageError as error:
        raise ImageError(f"image {folder.name}: {error}") from error


def _role_files(roles: Path, role: str) -> list[RoleFile]:
    found = []
    for path in sorted((roles / role).rglob("*")):
        # What Python leaves beside a program that a test loads is no part of the role, and another in each clone.
        if path.is_file() and path.parent.name != "__pycache__":
            executable = bool(path.stat().st_mode & stat.S_IXUSR)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found.append(RoleFile(path.relative_to(roles).as_posix(), executable, digest))
    return found
