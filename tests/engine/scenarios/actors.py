"""Who can play a scenario on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tidepool.engine.choice import find_cli

from .sandbox import Actor

_CHECKOUT: Final = Path(__file__).parents[3]


#: Why tests of both are left out where there is no CLI.
LEFT_OUT: Final = "needs the Pulumi CLI, which is not built here: make pulumi"


def real_cli() -> Actor | None:
    """The ``pulumi`` command on PATH, or the one that `make pulumi` built; None where there is neither."""
    program = find_cli(os.environ)
    return Actor("cli", (str(program),), _search_path()) if program else None


def version_of(cli: Actor) -> str:
    """What the real CLI says its version is."""
    return subprocess.run([*cli.argv, "version"], capture_output=True, text=True, check=True).stdout.strip()


def engine() -> Actor:
    """The embedded engine of this checkout."""
    return Actor("engine", (sys.executable, "-m", "tidepool.engine"), _search_path(), str(_CHECKOUT))


def _search_path() -> str:
    """PATH with this interpreter's own folder first: programs and plugins run with the same packages."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
