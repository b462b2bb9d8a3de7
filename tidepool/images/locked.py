"""The lock beside a recipe: which package of which version with which bytes. Pure.

One package a line, so that a new lock is a diff that can be read. No mirror is named: a package is known by its
digest, wherever it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from tidepool.images.errors import LockError
from tidepool.images.recipe import Recipe

#: The remedy.
MAKE_ANEW: Final = "Make the lock anew: `tidepool image lock NAME`"

#: A part of all digests, as the lock's text is: never changed.
_HEAD: Final = "# The packages of the recipe beside it, and all that they need. Made by `python -m tidepool.images lock`.\n"


@dataclass(frozen=True, order=True)
class LockedPackage:
    """A Debian package: ``size`` in bytes, ``sha256`` of its .deb file in hexadecimal digits."""

    name: str
    version: str
    architecture: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Lock:
    """Versions of a recipe's packages. ``epoch`` (s since 1970) is the time that everything made here bears."""

    release: str
    architecture: str
    epoch: int
    #: The names that the recipe had, as apt is given them.
    requested: tuple[str, ...]
    packages: tuple[LockedPackage, ...]

    def check(self, recipe: Recipe, architecture: str, origin: str) -> None:
        """Refuse a recipe or an architecture that this is no lock of.

        Raises:
            LockError: it is not; with what differs and the remedy.
        """
        wrong = []
        if self.release != recipe.release:
            wrong.append(f"it is for {self.release}, the recipe for {recipe.release}")
        if self.architecture != architecture:
            wrong.append(f"it is for {self.architecture}, this machine builds {architecture}")
        wrong += _difference("the recipe asks as well for", recipe.requested, self.requested)
        wrong += _difference("the recipe no longer asks for", self.requested, recipe.requested)
        if wrong:
            raise LockError(f"{origin} does not fit its recipe: {'; '.join(wrong)}. {MAKE_ANEW}")


def _difference(words: str, these: Collection[str], those: Collection[str]) -> list[str]:
    only = sorted(set(these) - set(those))
    return [f"{words} {', '.join(only)}"] if only else []


@dataclass(frozen=True)
class InstalledPackage:
    """A package of an image, as its dpkg knows it."""

    name: str
    version: str
    architecture: str


Package = LockedPackage | InstalledPackage


@dataclass(frozen=True)
class PackageChange:
    """A package that is not the same in two images: None where one has it not."""

    name: str
    before: str | None
    after: str | None


def differences(one: Iterable[Package], other: Iterable[Package]) -> tuple[PackageChange, ...]:
    """Return the packages that differ, by name."""
    before = {package.name: package.version for package in one}
    after = {package.name: package.version for package in other}
    names = sorted(before.keys() | after.keys())
    return tuple(
        PackageChange(n, before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)
    )


def render_lock(lock: Lock) -> str:
    """Return the lock as the text of its file: the same text for the same lock."""
    lines = [
        f"release {lock.release}",
        f"architecture {lock.architecture}",
        f"epoch {lock.epoch}",
        f"asked {' '.join(sorted(lock.requested))}",
        *(f"{p.name} {p.version} {p.architecture} {p.size} {p.sha256}" for p in sorted(lock.packages)),
    ]
    return _HEAD + "\n".join(lines) + "\n"


def parse_lock(text: str, *, origin: str) -> Lock:
    """Read what `render_lock` wrote.

    Raises:
        LockError: a line that is none of a lock's, with its number.
    """
    numbered = [(n, line.split()) for n, line in enumerate(text.splitlines(), 1)]
    lines = [(n, words) for n, words in numbered if words and not words[0].startswith("#")]
    heads: list[list[str]] = []
    for (number, words), key in zip(lines, ("release", "architecture", "epoch", "asked"), strict=False):
        if words[0] != key or len(words) < 2 or (key == "epoch" and not words[1].isdigit()):
            raise LockError(f"{origin}, line {number}: '{key} ...' is wanted. {MAKE_ANEW}")
        heads.append(words[1:])
    if len(heads) < 4:
        raise LockError(f"{origin} ends too early. {MAKE_ANEW}")
    packages = []
    for number, words in lines[4:]:
        if len(words) != 5 or not words[3].isdigit() or not re.fullmatch(r"[0-9a-f]{64}", words[4]):
            raise LockError(
                f"{origin}, line {number}: 'name version architecture bytes sha256' is wanted. {MAKE_ANEW}"
            )
        packages.append(LockedPackage(words[0], words[1], words[2], int(words[3]), words[4]))
    (release, *_), (architecture, *_), (epoch, *_), requested = heads
    return Lock(release, architecture, int(epoch), tuple(requested), tuple(packages))
