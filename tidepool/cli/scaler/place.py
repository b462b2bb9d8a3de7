"""Where the scaler of a stack keeps what is its own, and whether it has ever kept anything."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidepool.cli.stack import Stack

#: In the stack's folder.
SCALER_FOLDER: Final = "scaler"


def scaler_folder(stack: Stack) -> Path:
    """Where the scaler of ``stack`` keeps journal and log."""
    return stack.data / stack.name / SCALER_FOLDER


def has_journal(stack: Stack) -> bool:
    """Whether there is a journal to read. Reading makes none."""
    folder = scaler_folder(stack)
    if not folder.exists() and "TIDEPOOL_JOURNAL" not in stack.world.env:
        return False
    # Late: it costs more than all that `status` needs besides.
    from tidepool.scaling.journal import JOURNAL_FILE, JOURNAL_VARIABLE

    return bool(stack.world.env.get(JOURNAL_VARIABLE)) or (folder / JOURNAL_FILE).exists()
