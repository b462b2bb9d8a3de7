"""The choice of the engine: one rule, for the Automation API and for the command `tidepool`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Final, Literal

from tidepool.engine.errors import EngineError

EngineName = Literal["pulumi", "embedded"]

#: What ``TIDEPOOL_ENGINE`` may say.
ENGINES: Final = ("pulumi", "embedded")


def chosen_engine(env: Mapping[str, str]) -> EngineName:
    """The one that ``TIDEPOOL_ENGINE`` names; else the Pulumi CLI if it is on PATH, else the embedded engine.

    Raises:
        EngineError: when ``TIDEPOOL_ENGINE`` is something else, or the CLI is asked for and not there.
    """
    chosen = env.get("TIDEPOOL_ENGINE", "")
    if chosen and chosen not in ENGINES:
        raise EngineError(f"TIDEPOOL_ENGINE is {chosen!r}: expected 'pulumi' or 'embedded', or leave it out")
    if chosen == "embedded":
        return "embedded"
    found = shutil.which("pulumi", path=env.get("PATH"))
    if chosen == "pulumi" and found is None:
        raise EngineError(
            "TIDEPOOL_ENGINE is 'pulumi', but there is no `pulumi` command on PATH: install the Pulumi CLI, or "
            "leave TIDEPOOL_ENGINE out to use the embedded engine"
        )
    return "pulumi" if found else "embedded"
