"""Removing images from the store, but for those that a machine of this one stands on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tidepool.images.errors import ImageError
from tidepool.images.store import Image, ImageStore

#: For who builds it, or writes it in another form, at this moment.
_AT_WORK_S: Final = 5.0


def in_use(images: Iterable[Image], processes: Path = Path("/proc")) -> Mapping[str, tuple[int, ...]]:
    """Return for each digest a process of each mount namespace that has the image's root mounted, or a layer over it.

    Machines of this one are such namespaces; their mounts are seen from nowhere else. Takes some milliseconds for each.
    """
    roots = {f"/{image.digest}/root": image.digest for image in images}
    found: dict[str, list[int]] = {}
    seen = set()
    for process in sorted(
        (each for each in processes.iterdir() if each.name.isdigit()), key=lambda p: int(p.name)
    ):
        # It may end while it is looked at.
        with contextlib.suppress(OSError):
            namespace = (process / "ns/mnt").readlink()
            if namespace in seen:
                continue
            mounts = (process / "mountinfo").read_text(errors="replace")
            seen.add(namespace)
            for root, digest in roots.items():
                if root in mounts:
                    found.setdefault(digest, []).append(int(process.name))
    return {digest: tuple(of) for digest, of in found.items()}


def remove_images(images: Sequence[Image], store: ImageStore) -> None:
    """Remove the images with all their forms; all of them, or none.

    Raises:
        ImageError: a machine here stands on one, or somebody builds it or writes it in another form.
    """
    with contextlib.ExitStack() as held:
        for image in images:
            held.enter_context(store.locked(image.digest, on_wait=lambda: None, timeout_s=_AT_WORK_S))
        if used := in_use(images):
            told = "; ".join(
                f"{image.name} {image.digest[:12]}, by {_processes(used[image.digest])}"
                for image in images
                if image.digest in used
            )
            raise ImageError(
                f"machines here stand on {told}. Take their clusters down, or leave the image out; nothing was removed"
            )
        for image in images:
            store.remove(image.digest)
            store.log(image.digest).unlink(missing_ok=True)


def disk_bytes(image: Image) -> int:
    """Return how many bytes of disk the image takes with all its forms; reads each entry of its root."""
    kept: dict[tuple[int, int], int] = {}
    for path in image.folder.rglob("*"):
        about = path.lstat()
        kept[about.st_dev, about.st_ino] = about.st_blocks * 512
    return sum(kept.values())


def _processes(ids: tuple[int, ...]) -> str:
    return f"process{'es' if len(ids) > 1 else ''} {', '.join(map(str, ids[:8]))}{', ...' if ids[8:] else ''}"
