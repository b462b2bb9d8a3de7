"""The choice of the engine: the embedded one or the Pulumi CLI, and where that is."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from tidepool.engine.errors import EngineError

EngineName = Literal["pulumi", "embedded"]

#: What ``TIDEPOOL_ENGINE`` may say.
ENGINES: Final = ("pulumi", "embedded")
#: The version of the CLI whose commands, state and protocol this engine follows. The Automation API asks
#: `pulumi version` and decides by the answer what it may send: which commands exist, and that events go
#: to a gRPC server and not to a file. A version of the engine's own would be refused as too old, or make
#: it avoid what works. `about` says plainly that this is not the CLI.
COMPATIBLE_VERSION: Final = "3.260.0"
#: The folder in whose `bin` `make pulumi` puts the CLI: in the environment of this Python.
BUILT: Final = Path(sys.prefix) / "pulumi"
#: The program by which the CLI runs Python.
HOST: Final = "pulumi-language-python"
_EXECUTABLE: Final = b"\x7fELF"


def chosen_engine(env: Mapping[str, str]) -> EngineName:
    """The one that ``TIDEPOOL_ENGINE`` names; else the Pulumi CLI if it is on PATH, else the embedded engine.

    Raises:
        EngineError: when ``TIDEPOOL_ENGINE`` is something else, or the CLI is asked for and not there.
    """
    chosen = env.get("TIDEPOOL_ENGINE", "")
    if chosen and chosen not in ENGINES:
        raise EngineError(f"TIDEPOOL_ENGINE is {chosen!r}: expected 'pulumi' or 'embedded', or leave it out")
    if chosen == "embedded" or (not chosen and shutil.which("pulumi", path=env.get("PATH")) is None):
        return "embedded"
    pulumi_cli(env)
    return "pulumi"


def find_cli(env: Mapping[str, str]) -> Path | None:
    """The CLI that there is: the one on PATH, else the one that `make pulumi` built."""
    found = shutil.which("pulumi", path=env.get("PATH")) or shutil.which(BUILT / "bin" / "pulumi")
    return Path(found) if found else None


def pulumi_cli(env: Mapping[str, str]) -> Path:
    """The CLI that there is, fit for programs in Python.

    Raises:
        EngineError: there is none, or one that cannot run them.
    """
    program = find_cli(env)
    if program is None:
        raise EngineError(
            "TIDEPOOL_ENGINE is 'pulumi', but there is no `pulumi` command on PATH, and none was built: `make pulumi` "
            "builds it, or install the Pulumi CLI; or leave TIDEPOOL_ENGINE out to use the embedded engine"
        )
    # The CLI looks on PATH and beside itself. A script, as some package managers have in its place, is elsewhere.
    beside = program.resolve()
    if not (shutil.which(HOST, path=env.get("PATH")) or os.access(beside.with_name(HOST), os.X_OK)):
        with beside.open("rb") as file:
            alone = file.read(len(_EXECUTABLE)) == _EXECUTABLE
        if alone:
            raise EngineError(
                f"the Pulumi CLI {program} has no language host for Python: there is no {HOST} beside it, nor on PATH. "
                "Install all of Pulumi, or take it off PATH and build it by `make pulumi`; TIDEPOOL_ENGINE=embedded does without"
            )
    return program
