"""The contract of a host that is made anew from the image of a role, whoever switches it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidepool.images.iso import SEED_BYTES
from tidepool.infrastructures.boot_media import imaging, kinds
from tidepool.infrastructures.boot_media.imaging import MediumImaging

ROLES = ("slurm", "kubernetes")


def images(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An ISO for each role, of zeros alone."""
    made = {role: folder / f"{role}.iso" for role in ROLES}
    for path in made.values():
        path.write_bytes(b"\0" * SEED_BYTES)
    for module in (imaging, kinds):
        monkeypatch.setattr(module, "seed_at", lambda path: 0 if path.exists() else path.read_bytes())
    return {role: str(path) for role, path in made.items()}


def imaged(it: MediumImaging) -> set[str]:
    """The roles whose image it has."""
    return {*it.imaged()}


def keeps_the_contract(
    it: MediumImaging,
    boots: Callable[[], int],
    is_on: Callable[[], bool],
    cut: Callable[[], None],
    fetched: Callable[[], Path],
) -> None:
    """The host is on with Slurm's image. It answers while it ``is_on``, was on ``boots`` times, and ``cut`` takes its power.

    ``fetched`` is what its BMC has read its medium into.
    """
    assert (imaged(it), it.is_blank()) == ({"slurm"}, False)
    before, had = boots(), fetched()
    it.image("kubernetes")
    # A BMC that keeps what it read has read it anew.
    assert fetched() != had
    assert (imaged(it), is_on(), boots()) == ({"kubernetes"}, True, before + 1)
    cut()
    assert (imaged(it), it.is_blank()) == (set[str](), True)
    it.image("slurm")
    assert (imaged(it), it.is_blank(), is_on()) == ({"slurm"}, False, True)
    # Done again, after one that was cut off.
    it.image("slurm")
    assert (imaged(it), is_on(), boots()) == ({"slurm"}, True, before + 3)
