"""What the next operation will know of one that was cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tidepool.engine.resource import ResourceState, Snapshot, decode_resource
from tidepool.engine.state.backend import DiyBackend
from tidepool.engine.state.folder import Folder
from tidepool.engine.state.journal import Recovered, recover
from tidepool.engine.state.layout import StackReference
from tidepool.engine.state.secrets import NoSecrets

_DEV: Final = StackReference("ops", "dev")


def recovered(backend_folder: Path) -> Snapshot:
    """The state that the next operation begins with, and what is in the way of it."""
    backend = DiyBackend(Folder(backend_folder))

    def decode(raw: Any) -> ResourceState:
        return decode_resource(raw, NoSecrets().decrypt)

    def load() -> Snapshot:
        return backend.load(_DEV, NoSecrets()) or Snapshot()

    found: Recovered | None = recover(backend.journal(_DEV), backend.content(_DEV), load, decode)
    return found.snapshot if found is not None else load()


def check_nothing_forgotten(snapshot: Snapshot, world: dict[str, dict[str, Any]]) -> None:
    """What exists is in the state or pending; what is in the state exists."""
    known = [r.id for r in snapshot.resources if r.type.startswith("fake:")]
    pending = {op.resource.urn.rpartition("::")[2] for op in snapshot.pending_operations}
    assert len(set(known)) == len(known)
    assert set(known) <= world.keys()
    assert {world[id]["name"] for id in world.keys() - set(known)} <= pending
