"""The real world of the fake provider: which resources exist, told by an append-only file.

Each line of ``$FAKE_WORLD/world.jsonl`` is one effect, written with a single O_APPEND write, so that any
number of processes can share a world and none of its effects is lost when one of them is killed.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

FILE = "world.jsonl"


class World:
    """What exists. ``folder`` None keeps it in memory only."""

    def __init__(self, folder: Path | None) -> None:
        self._lock = threading.Lock()
        self._resources: dict[str, dict[str, Any]] = {}
        self._serials: dict[str, int] = {}
        self._read_to = 0
        self._fd = -1
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(folder / FILE, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)

    def create(self, type: str, name: str, props: dict[str, Any], *, once: bool = False) -> dict[str, Any]:
        """Make a resource; its id is ``name`` and how often one of that name was made.

        ``once`` takes the last one of that name, where it is still there and the same in everything.
        """
        with self._lock:
            self._catch_up()
            serial = self._serials.get(name, 0) + 1
            last = self._resources.get(f"{name}-{serial - 1}")
            if once and last is not None and (last["type"], last["props"]) == (type, props):
                return last
            resource = {
                "id": f"{name}-{serial}",
                "type": type,
                "name": name,
                "serial": serial,
                "props": props,
            }
            self._write({"op": "create"} | resource)
            return resource

    def update(self, id: str, props: dict[str, Any]) -> dict[str, Any]:
        """Change a resource.

        Raises:
            KeyError: when there is none with this id.
        """
        with self._lock:
            self._catch_up()
            changed = self._resources[id] | {"props": props}
            self._write({"op": "update", "id": id, "props": props})
            return changed

    def delete(self, id: str) -> bool:
        """Remove a resource; false when there was none."""
        with self._lock:
            self._catch_up()
            existed = id in self._resources
            if existed:
                self._write({"op": "delete", "id": id})
            return existed

    def find(self, id: str) -> dict[str, Any] | None:
        """The resource as it is now."""
        with self._lock:
            self._catch_up()
            return self._resources.get(id)

    def resources(self) -> dict[str, dict[str, Any]]:
        """All that exists, by id, in the order in which it was made."""
        with self._lock:
            self._catch_up()
            return dict(self._resources)

    def _write(self, effect: dict[str, Any]) -> None:
        if self._fd < 0:
            self._apply(effect)
            return
        line = json.dumps(effect).encode() + b"\n"
        os.write(self._fd, line)
        self._catch_up()

    def _catch_up(self) -> None:
        if self._fd < 0:
            return
        size = os.fstat(self._fd).st_size
        if size == self._read_to:
            return
        text = os.pread(self._fd, size - self._read_to, self._read_to)
        self._read_to = size
        for line in text.splitlines():
            self._apply(json.loads(line))

    def _apply(self, effect: dict[str, Any]) -> None:
        op = effect.pop("op")
        if op == "create":
            self._resources[effect["id"]] = effect
            self._serials[effect["name"]] = effect["serial"]
        elif op == "update":
            self._resources[effect["id"]] = self._resources[effect["id"]] | {"props": effect["props"]}
        else:
            self._resources.pop(effect["id"], None)
