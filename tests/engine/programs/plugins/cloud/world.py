"""The cloud itself: a folder of files, so that a test sees and changes what the provider really holds.

``objects/ID.json`` is one object, ``faults.json`` says which calls go wrong, ``calls.jsonl`` lists the calls
that were made, ``began/OP-NAME`` marks a call that hangs. Several processes may serve one cloud at a time.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class World:
    """The cloud in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "objects").mkdir(parents=True, exist_ok=True)
        (folder / "began").mkdir(exist_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self._folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def note(self, call: dict[str, Any]) -> None:
        """Append ``call`` to the list of calls."""
        with self._locked(), open(self._folder / "calls.jsonl", "a") as calls:
            calls.write(json.dumps(call, sort_keys=True) + "\n")

    def began(self, op: str, name: str) -> None:
        """Tell whoever watches that a call is under way."""
        (self._folder / "began" / f"{op}-{name}").touch()

    def next_serial(self, name: str) -> int:
        """How many objects of this ``name`` there have been, with the one that asks."""
        counter = self._folder / f"serial-{name}"
        with self._locked():
            serial = int(counter.read_text()) + 1 if counter.exists() else 1
            counter.write_text(str(serial))
        return serial

    def fault(self, op: str, name: str) -> dict[str, Any] | None:
        """The fault that awaits this call, taken off the list where it strikes a given number of times."""
        path = self._folder / "faults.json"
        with self._locked():
            faults = json.loads(path.read_text()) if path.exists() else []
            for fault in faults:
                if fault["op"] == op and fault["name"] == name and fault.get("times", 1) > 0:
                    fault["times"] = fault.get("times", 1) - 1
                    path.write_text(json.dumps(faults))
                    return dict(fault)
        return None

    def get(self, id: str) -> dict[str, Any] | None:
        """The object ``id``, or None where there is none."""
        path = self._folder / "objects" / f"{id}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def put(self, id: str, thing: dict[str, Any]) -> None:
        """Make or change the object ``id``."""
        (self._folder / "objects" / f"{id}.json").write_text(json.dumps(thing, sort_keys=True))

    def drop(self, id: str) -> None:
        """Remove the object ``id``; no error where there is none."""
        (self._folder / "objects" / f"{id}.json").unlink(missing_ok=True)
