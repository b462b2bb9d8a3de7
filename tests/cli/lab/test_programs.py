"""Programs of a campaign: what is built for them before they are compiled."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidepool.cli.lab.programs import build_programs
from tidepool.lab.programs.build import MPI_IMAGE


@pytest.mark.parametrize(
    ("programs", "wanted"), [({"probe"}, []), ({"probe", "ping_pong"}, [MPI_IMAGE])], ids=["plain", "mpi"]
)
def test_the_image_with_mpis_headers_is_built_where_a_program_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: set[str], wanted: list[str]
) -> None:
    built: list[str] = []
    compiled: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        "tidepool.cli.lab.programs.build",
        lambda there, names, mpi_root: compiled.append((there, names, mpi_root)),
    )
    testbed = SimpleNamespace(programs="programs", here=lambda name: tmp_path / name)
    machines = SimpleNamespace(testbed=testbed, build_image=built.append)
    # What is there now, and not before it was built.
    images = SimpleNamespace(newest=lambda: {name: SimpleNamespace(root=tmp_path / name) for name in built})
    build_programs(frozenset(programs), cast(Any, machines), cast(Any, images))
    assert built == wanted
    root = tmp_path / MPI_IMAGE if wanted else None
    assert compiled == [(tmp_path / "programs", sorted(programs), root)]
