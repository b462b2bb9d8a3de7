"""Who can play a scenario on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from .sandbox import Actor

_CHECKOUT: Final = Path(__file__).parents[3]


def real_cli() -> Actor | None:
    """The ``pulumi`` command on PATH, or None."""
    if shutil.which("pulumi") is None:
        return None
    return Actor("cli", ("pulumi",), _search_path())


def version_of(cli: Actor) -> str:
    """What the real CLI says its version is."""
    return subprocess.run([*cli.argv, "version"], capture_output=True, text=True, check=True).stdout.strip()


def engine() -> Actor:
    """The embedded engine of this checkout."""
    return Actor("engine", (sys.executable, "-m", "tidepool.engine"), _search_path(), str(_CHECKOUT))


def _search_path() -> str:
    """PATH with this interpreter's own folder first: programs and plugins run with the same packages."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
