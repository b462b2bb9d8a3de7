"""tidepool:local:Volume."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.errors import explained
from tidepool.infrastructures.local.kernel.private import make_private
from tidepool.infrastructures.local.kernel.spec import is_name
from tidepool.infrastructures.local.resources import Volume, VolumeModel
from tidepool.resources.kind import Home, Kind, Made, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Inputs, Plain

NAME_RULE: Final = "allowed are lower-case letters, digits and '-' within, at most 63 of them"


class VolumeKind(Kind[VolumeModel]):
    """A folder ``<data>/<stack>/volumes/<name>``."""

    resource = Volume

    def __init__(self, home: Home) -> None:
        self._home = home

    def mistakes(self, wanted: VolumeModel) -> Iterable[Mistake]:
        for key, name in (("stack", wanted.stack), ("volume", wanted.volume)):
            if not is_name(name):
                yield Mistake(key, f"it is {name!r}; {NAME_RULE}")

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        stack, volume = inputs.get("stack"), inputs.get("volume")
        if isinstance(stack, str) and isinstance(volume, str):
            return {"path": str(self._path(stack, volume))}
        return {}

    def create(self, wanted: VolumeModel, task: Task) -> Made:
        path = self._path(wanted.stack, wanted.volume)
        with explained(f"volume {wanted.volume} of stack {wanted.stack} could not be made"):
            make_private(path.parent)
            # One that is there may be in use, and its owner is whom a machine gave it to.
            path.mkdir(exist_ok=True, mode=0o755)
        return Made(f"{wanted.stack}/{wanted.volume}")

    def look(self, id: str, state: VolumeModel) -> Mapping[str, Plain] | None:
        return {} if self._path(state.stack, state.volume).is_dir() else None

    def delete(self, id: str, state: VolumeModel, task: Task) -> None:
        path = self._path(state.stack, state.volume)
        if state.retain:
            if path.is_dir():
                task.info(f"{path} is kept, as the volume says; the next volume of that name has it")
            return
        with explained(f"volume {id} could not be deleted"):
            if path.is_dir():
                shutil.rmtree(path)
            remove_if_empty(path.parent, below=self._home.data)

    def _path(self, stack: str, volume: str) -> Path:
        return self._home.data / stack / "volumes" / volume


def remove_if_empty(folder: Path, *, below: Path) -> None:
    """Remove a folder, and those above it up to ``below``, as long as there is nothing in them."""
    while folder != below and below in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            return  # it holds something, or somebody else removed it
        folder = folder.parent
