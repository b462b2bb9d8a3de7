"""Whether an image in the store still is what was built: its root and each of its forms, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidepool.images.forms import FORMS, find_form
from tidepool.images.store import Image, sha256_of
from tidepool.images.tar import root_sha256


@dataclass(frozen=True)
class Verdict:
    """``what`` is `root` or a form; ``well`` is None where nothing was recorded that it could be compared with."""

    what: str
    well: bool | None
    detail: str


def verify(image: Image) -> Iterator[Verdict]:
    """The verdict on the root, then on each form that was made of it. It reads all of them: a second for each GiB."""
    if image.root_sha256:
        now = root_sha256(image.root)
        same = now == image.root_sha256
        yield Verdict("root", same, now if same else f"{now}; it was built as {image.root_sha256}")
    else:
        yield Verdict("root", None, "it was built by a Tidepool that did not record what its root holds")
    for form in FORMS:
        if (file := find_form(image, form)) is not None:
            now = sha256_of(file.path)
            same = now == file.sha256
            yield Verdict(form, same, now if same else f"{now}; it was written as {file.sha256}")
