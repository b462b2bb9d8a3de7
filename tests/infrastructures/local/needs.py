"""What tests of machines need before they make any: a host that can make them, and their first process, compiled."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tidepool.infrastructures.local.kernel import preflight
from tidepool.infrastructures.local.kernel.birth import init_program


def needs_machines(data: Path) -> None:
    """Make the data folder ``data`` ready for machines; skip where this host cannot make any."""
    if lacks := lacking():
        pytest.skip(lacks)
    data.mkdir(parents=True, exist_ok=True)
    name, program = _compiled()
    (data / name).write_bytes(program)
    (data / name).chmod(0o755)


@cache
def lacking() -> str:
    """Return why this host can make no machines; empty where it can."""
    with TemporaryDirectory() as folder:
        return "; ".join(str(lack) for lack in preflight(Path(folder)) if lack.fatal)


@cache
def _compiled() -> tuple[str, bytes]:
    """Return the first process's program and its name; it is compiled for more than a second."""
    with TemporaryDirectory() as folder:
        program = init_program(Path(folder))
        return program.name, program.read_bytes()
