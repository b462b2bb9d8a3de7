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
    lacks, name, program = _tried()
    if lacks:
        pytest.skip(lacks)
    data.mkdir(parents=True, exist_ok=True)
    (data / name).write_bytes(program)
    (data / name).chmod(0o755)


def lacking() -> str:
    """Return why this host can make no machines; empty where it can."""
    return _tried()[0]


@cache
def _tried() -> tuple[str, str, bytes]:
    """Return what this host lacks; else the first process's name and program, which takes more than a second to compile."""
    with TemporaryDirectory() as folder:
        if lacks := "; ".join(str(lack) for lack in preflight(Path(folder)) if lack.fatal):
            return lacks, "", b""
        # The trial has compiled it.
        program = init_program(Path(folder))
        return "", program.name, program.read_bytes()
