"""The images of a project's folder and of the store, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.images.errors import ImageError
from tidepool.images.forms import FORMS, Form, find_form
from tidepool.images.locked import InstalledPackage
from tidepool.images.renewal import known
from tidepool.images.source import RECIPE_FILE, ImageSource, read_source
from tidepool.images.store import Image, ImageStore

#: Of a digest, as many digits as people are shown; fewer will do to name one.
SHORT: Final = 12


@dataclass(frozen=True)
class Entry:
    """An image by its recipe (``source``), in the store (``image``), or both. ``trouble`` is why there is no source."""

    name: str
    digest: str
    source: ImageSource | None
    image: Image | None
    trouble: str = ""
    #: That it is built by another lock than its recipe's, as the mirror has moved on.
    note: str = ""

    @property
    def is_current(self) -> bool:
        """Tell if the recipe of that name is of this digest."""
        return self.source is not None

    @property
    def forms(self) -> tuple[Form, ...]:
        return tuple(form for form in FORMS if self.image and find_form(self.image, form))

    @property
    def packages(self) -> tuple[InstalledPackage, ...]:
        """Its software: what was installed, else what is locked."""
        if self.image is not None:
            return self.image.packages
        locked = self.source.lock.packages if self.source else ()
        return tuple(InstalledPackage(each.name, each.version, each.architecture) for each in locked)


@dataclass(frozen=True)
class Catalog:
    """Images: those with a recipe first, by name, then those of the store that no recipe leads to any more."""

    entries: tuple[Entry, ...]

    def one(self, word: str) -> Entry:
        """Return the image of that name, or of the digest that begins so.

        Raises:
            ImageError: there is none, or several digests begin so, or its recipe cannot be read.
        """
        named = [each for each in self.entries if each.name == word and (each.is_current or each.trouble)]
        found = named or [each for each in self.entries if word and each.digest.startswith(word)]
        if len(found) > 1:
            raise ImageError(
                f"{word}: several images begin so: {', '.join(each.digest[:SHORT] for each in found)}"
            )
        if not found:
            known = ", ".join(
                dict.fromkeys(e.name if e.is_current or e.trouble else e.digest[:SHORT] for e in self.entries)
            )
            raise ImageError(f"{word}: there is no image of that name or digest; there are {known or 'none'}")
        if found[0].trouble:
            raise ImageError(found[0].trouble)
        return found[0]


def read_catalog(
    folder: Path, playbooks: Path, store: ImageStore, *, architecture: str, environment: Mapping[str, str]
) -> Catalog:
    """Return the images whose recipes are in ``folder``, and those of ``store``; takes milliseconds for each."""
    entries = []
    for path in sorted(folder.glob(f"*/{RECIPE_FILE}")):
        name = path.parent.name
        try:
            source = read_source(path.parent, playbooks, architecture=architecture, environment=environment)
        except ImageError as error:
            entries.append(Entry(name, "", None, None, str(error)))
        else:
            found = known(source, store)
            digest = found.source.digest
            entries.append(Entry(name, digest, found.source, store.find(digest), note=found.note))
    current = {entry.digest for entry in entries}
    older = [image for image in store.images() if image.digest not in current]
    entries += [
        Entry(image.name, image.digest, None, image)
        for image in sorted(older, key=lambda i: (i.name, i.digest))
    ]
    return Catalog(tuple(entries))
