"""Releases of Slurm: which serve which, as its upgrade guide has it (slurm.schedmd.com/upgrades.html)."""

from __future__ import annotations

import pytest

from tidepool.cluster.slurm_releases import Release, release_of, served_by


@pytest.mark.parametrize(
    ("controller", "nodes"),
    [
        ("22.05", ("22.05",)),  # and two that Tidepool has no keys of
        ("24.05", ("24.05", "23.11", "23.02")),
        ("24.11", ("24.11", "24.05", "23.11", "23.02")),
        ("25.05", ("25.05", "24.11", "24.05", "23.11")),
        ("26.05", ("26.05", "25.11", "25.05", "24.11")),
    ],
)
def test_a_controller_serves_its_own_release_and_some_before(
    controller: Release, nodes: tuple[Release, ...]
) -> None:
    assert served_by(controller) == nodes


@pytest.mark.parametrize("version", ["24.11", "24.11.5", "24.11.5-4+deb13u1"])
def test_a_release_is_the_beginning_of_a_version(version: str) -> None:
    assert release_of(version) == "24.11"
