"""The recordings of the real CLI (see recorded/README.md)."""

from __future__ import annotations

import shutil
from pathlib import Path

from tidepool.engine.resource import Snapshot
from tidepool.engine.state.backend import DiyBackend
from tidepool.engine.state.checkpoint import Crypter
from tidepool.engine.state.folder import Folder
from tidepool.engine.state.layout import StackReference

FOLDER = Path(__file__).parent / "recorded" / "dot_pulumi"
PASSPHRASE = "correct horse"
STACKS = ("empty", "whole", "left", "cut")


def file_of(stack: str) -> Path:
    """The recorded stack file."""
    return FOLDER / "stacks" / "recorded" / f"{stack}.json"


def reference(stack: str) -> StackReference:
    """A recorded stack."""
    return StackReference("recorded", stack)


def copy_to(root: Path) -> DiyBackend:
    """A backend in ``root`` that holds all recorded stacks."""
    shutil.copytree(FOLDER, root / ".pulumi")
    return DiyBackend(Folder(root))


def save(backend: DiyBackend, ref: StackReference, snapshot: Snapshot, crypter: Crypter) -> Path:
    """Make ``snapshot`` the stack's state, as an operation does at its end; the file's path."""
    return backend.write(ref, backend.encode(ref, snapshot, crypter))
