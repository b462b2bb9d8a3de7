"""The lock that an image is built by here: its recipe's, or where a mirror has moved on, one that is resolved anew.

A mirror drops a version when there is a newer one. What is resolved instead is kept in the store, by the digest of the
recipe's lock, and stays for as long as that lock does: the next build makes the same image, and a stack that was
made from it stays as it is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tidepool.images.apt import Apt, private_apt
from tidepool.images.errors import LockError
from tidepool.images.locked import Lock, differences, parse_lock, render_lock
from tidepool.images.machine import Machine, require
from tidepool.images.progress import Observer, Phase, Progress, unseen
from tidepool.images.recipe import Recipe
from tidepool.images.source import ImageSource, read_recipe
from tidepool.images.store import LOCK_FILE, ImageStore

#: For another who asks the same mirror, or resolves the same lock.
_WAIT_S: Final = 600.0
#: Changed packages that a note names.
_NAMED: Final = 4
#: Says that /bin, /lib and /sbin are links into /usr. Where it is there from the start, nothing has to be converted,
#: by a package that brings the whole of Perl along. Other releases do not ask for it: bullseye leaves it open.
MERGED: Final = "usr-is-merged"
_MERGED_FROM_THE_START: Final[Mapping[str, tuple[str, ...]]] = {"bookworm": (MERGED,)}


@dataclass(frozen=True)
class Buildable:
    """An image's source with a lock that can be met. ``note`` tells in a line where that is not the recipe's own."""

    source: ImageSource
    note: str = ""


def known(source: ImageSource, store: ImageStore) -> Buildable:
    """Return ``source`` with the lock that it was last built by here; the mirror is not asked."""
    kept = _kept(source, store)
    return Buildable(source) if kept is None else _with(source, kept)


def buildable(
    source: ImageSource, store: ImageStore, machine: Machine, *, observe: Observer = unseen
) -> Buildable:
    """Return ``source`` with a lock that can be met: its own, or the one that is kept for it, or one resolved anew.

    The mirror is asked only where neither the image nor all of its packages are in the store.

    Raises:
        MissingTool: there is no apt, or no root.
        MirrorSilent: the mirror does not answer.
        MirrorError: it has not got the recipe's packages; or not in the locked versions, and the recipe is ``locked``.
    """
    found = _without_mirror(source, store)
    if found is not None:
        return found
    require("apt-get", "setpriv", "unshare")
    recipe, wait = source.recipe, Progress(Phase.WAIT, 0.0)
    name = f"renewal-{store.lock_key(source.lock)}"
    with store.locked(name, on_wait=lambda: observe(wait), timeout_s=_WAIT_S):
        # Another may have resolved it meanwhile.
        if (found := _without_mirror(source, store)) is not None:
            return found
        observe(Progress(Phase.ASK, 0.0))
        with private_apt(machine, recipe.release, store, recipe.from_release) as apt:
            kept = _kept(source, store)
            locks = [lock for lock in (kept, source.lock) if lock is not None]
            for lock in locks:
                if not apt.gone(store.missing(lock.packages)):
                    return _with(source, lock)
            if recipe.locked:
                apt.refuse_what_is_gone(store.missing(source.lock.packages), source.name)
            renewed = _resolved(recipe, apt, machine, int(time.time()))
        store.save_renewed_lock(source.lock, renewed)
    return _with(source, renewed)


def lock(
    recipe: Recipe, store: ImageStore, machine: Machine, *, epoch: int, previous: Lock | None = None
) -> Lock:
    """Return the lock for a recipe's folder: as the recipe is built here already, else as the mirror has it now.

    ``epoch`` (s since 1970) is the time that the image will bear; where nothing changed since ``previous``, its own
    is kept, and with it the image.

    Raises:
        MirrorError: the mirror does not have the release, or a package.
    """
    kept = None if previous is None else store.renewed_lock(previous)
    if kept is not None and (kept.release, sorted(kept.requested)) == (
        recipe.release,
        sorted(recipe.requested),
    ):
        return kept
    require("apt-get", "setpriv", "unshare")
    with private_apt(machine, recipe.release, store, recipe.from_release) as apt:
        made = _resolved(recipe, apt, machine, epoch)
    if previous is not None and replace(made, epoch=previous.epoch) == previous:
        return previous
    return made


def write_lock(folder: Path, playbooks: Path, store: ImageStore, machine: Machine) -> tuple[Lock, bool]:
    """Write the lock of the recipe in ``folder`` beside it; gives it, and whether it changed.

    Raises:
        ImageError: as `lock`; or the recipe has mistakes.
    """
    path = folder / LOCK_FILE
    try:
        previous = parse_lock(path.read_text(), origin=str(path))
    except (FileNotFoundError, LockError):
        previous = None  # made anew, whatever was there
    recipe = read_recipe(folder, playbooks)
    made = lock(recipe, store, machine, epoch=int(time.time()), previous=previous)
    path.write_text(render_lock(made))
    return made, made != previous


def _without_mirror(source: ImageSource, store: ImageStore) -> Buildable | None:
    """Return what can be built without a mirror: an image that is there, else one whose packages all are."""
    if store.find(source.digest) is not None:
        return Buildable(source)
    for lock in (_kept(source, store), source.lock):
        if lock is not None:
            found = _with(source, lock)
            if store.find(found.source.digest) is not None or not store.missing(lock.packages):
                return found
    return None


def _kept(source: ImageSource, store: ImageStore) -> Lock | None:
    """Return the lock that is kept for the recipe's; of a ``locked`` recipe none counts, nor where its image is there."""
    if source.recipe.locked or store.find(source.digest) is not None:
        return None
    return store.renewed_lock(source.lock)


def _with(source: ImageSource, lock: Lock) -> Buildable:
    if lock == source.lock:
        return Buildable(source)
    changed = differences(source.lock.packages, lock.packages)
    changes = [f"{each.name} {each.before or '-'} -> {each.after or '-'}" for each in changed]
    more = f", and {len(changes) - _NAMED} more" if len(changes) > _NAMED else ""
    day = time.strftime("%Y-%m-%d", time.gmtime(lock.epoch))
    note = (
        f"image {source.name}: the mirror has moved on from its lock. It is made of what was resolved anew on {day}, in "
        f"which {len(changes)} of its packages changed ({', '.join(changes[:_NAMED])}{more}); `tidepool image lock {source.name}` "
        "brings that into the recipe"
    )
    return Buildable(replace(source, lock=lock), note)


def _resolved(recipe: Recipe, apt: Apt, machine: Machine, epoch: int) -> Lock:
    packages = apt.resolve((*recipe.packages, *_MERGED_FROM_THE_START.get(recipe.release, ())))
    return Lock(recipe.release, machine.architecture(), epoch, recipe.requested, packages)
