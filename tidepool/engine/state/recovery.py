"""Going on after an operation that was cut off: its journal becomes part of the state."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidepool.engine.errors import EngineError
from tidepool.engine.resource import Snapshot
from tidepool.engine.state import journal
from tidepool.engine.state.aliases import normalize_urn_references
from tidepool.engine.state.journal import Decode


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a journal made of a snapshot. ``steps`` counts its records; ``operation`` is what was cut off."""

    snapshot: Snapshot
    operation: str
    steps: int

    @property
    def message(self) -> str:
        """What a person is told."""
        pending = len(self.snapshot.pending_operations)
        under_way = f"; {pending} steps were under way and are listed as pending" if pending else ""
        return (
            f"the last {self.operation} of this stack was cut off: {self.steps} records of its journal "
            f"were recovered{under_way}"
        )


def recover(
    path: Path, checkpoint: bytes | None, load: Callable[[], Snapshot], decode: Decode
) -> Recovered | None:
    """What the journal at ``path`` makes of the stack; None where there is nothing to recover.

    ``checkpoint`` is what the stack's file holds, and ``load`` reads it. Changes nothing: without the stack's
    lock, the journal may be that of an operation that is under way.

    Raises:
        EngineError: where the checkpoint was changed by somebody else since.
    """
    interrupted = journal.read(path, decode)
    if interrupted is None or not interrupted.records:
        return None
    current = digest(checkpoint)
    if interrupted.commit_digest == current:
        return None
    if interrupted.base_digest != current:
        made = len(interrupted.records)
        raise EngineError(
            f"the last {interrupted.operation} of this stack was cut off, and its state was changed by "
            f"something else since. The {made} records of what it did are in {path} and are not part of "
            f"the state. Look through them, make the state right (`stack export`, `stack import`), and move "
            "the journal away to go on"
        )
    # As the checkpoint that is written of it, so that a renamed resource is found by its new name alone.
    snapshot = normalize_urn_references(journal.fold(load(), interrupted.records))
    return Recovered(snapshot, interrupted.operation, len(interrupted.records))


def digest(checkpoint: bytes | None) -> str:
    """The SHA-256 of what a stack's file holds; empty where there is none."""
    return "" if checkpoint is None else hashlib.sha256(checkpoint).hexdigest()
