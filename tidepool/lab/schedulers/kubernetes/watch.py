"""`Watch`: objects of some collections as they change, by the API's own watches, each read by a thread."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from tidepool.clients.kubernetes.contract import KubernetesError
from tidepool.clients.kubernetes.exchange import Stream
from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.schedulers.kubernetes.api import Api

#: The server ends a watch after so long, and it begins anew where it was.
_LASTS_S: Final = 600
#: So long changes are gathered that come one after the other.
_GATHER_S: Final = 0.02
_END_S: Final = 5.0


class Change(NamedTuple):
    """An object of a collection as it is now, or was when it went."""

    collection: str
    thing: Mapping[str, Any]
    is_gone: bool


class Watch:
    """Watches collections until it is closed."""

    def __init__(self, api: Api, collections: Sequence[str]) -> None:
        self._api = api
        self._collections = tuple(collections)
        self._changes: queue.SimpleQueue[Change | Exception] = queue.SimpleQueue()
        self._is_over = False
        self._lock = threading.Lock()
        self._streams: dict[str, Stream] = {}
        self._threads: list[threading.Thread] = []

    def begin(self) -> Sequence[Change]:
        """Return all that there is; what changes from now on comes from `changes`."""
        found = []
        for collection in self._collections:
            page = self._api.get(collection)
            found += [Change(collection, item, False) for item in page["items"]]
            version, known = str(page["metadata"]["resourceVersion"]), set(map(_name, page["items"]))
            thread = threading.Thread(
                target=self._read, args=(collection, version, known), name=f"watch {collection}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        return found

    def changes(self, wait_s: float) -> Sequence[Change]:
        """Return what has changed, in its order; empty where nothing does within ``wait_s``.

        Raises:
            SchedulerFailed: the API server cannot be watched any more.
        """
        found: list[Change] = []
        deadline = time.monotonic() + wait_s
        while True:
            try:
                change = self._changes.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                return found
            if isinstance(change, Exception):
                raise SchedulerFailed(f"a watch broke off: {change}") from change
            if not found:
                deadline = min(deadline, time.monotonic() + _GATHER_S)
            found.append(change)

    def streams(self) -> tuple[Stream, ...]:
        """Return the answers that are being read."""
        with self._lock:
            return tuple(self._streams.values())

    def close(self) -> None:
        """End all watches."""
        self._is_over = True
        for stream in self.streams():
            stream.end()
        for thread in self._threads:
            thread.join(_END_S)

    def _read(self, collection: str, version: str, known: set[str]) -> None:
        try:
            while not self._is_over:
                version = self._read_once(collection, version, known) or self._relist(collection, known)
        except (KubernetesError, SchedulerFailed) as error:
            if not self._is_over:
                self._changes.put(error)

    def _read_once(self, collection: str, version: str, known: set[str]) -> str:
        """Read one watch to its end; returns the version that it came to, empty where the server no longer has that."""
        asked = {
            "watch": "1",
            "resourceVersion": version,
            "timeoutSeconds": _LASTS_S,
            "allowWatchBookmarks": "true",
        }
        with self._api.exchange.stream(f"{collection}?{urlencode(asked)}", _LASTS_S) as stream:
            with self._lock:
                self._streams[collection] = stream
                if self._is_over:
                    return version
            for line in _whole(stream):
                event = json.loads(line)
                kind, thing = event.get("type"), event.get("object") or {}
                if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
                    return ""  # what it says of a version that is too old
                version = str(thing["metadata"]["resourceVersion"])
                if kind != "BOOKMARK":
                    self._tell(collection, thing, kind == "DELETED", known)
        return version

    def _relist(self, collection: str, known: set[str]) -> str:
        """Tell of all that there is, and of what went meanwhile."""
        page = self._api.get(collection)
        for name in known.difference(map(_name, page["items"])):
            self._tell(collection, {"metadata": {"name": name}}, True, known)
        for item in page["items"]:
            self._tell(collection, item, False, known)
        return str(page["metadata"]["resourceVersion"])

    def _tell(self, collection: str, thing: Mapping[str, Any], is_gone: bool, known: set[str]) -> None:
        (known.discard if is_gone else known.add)(_name(thing))
        self._changes.put(Change(collection, thing, is_gone))


def _whole(stream: Stream) -> Iterator[bytes]:
    """Yield whole lines until the answer ends, or breaks off: what comes after is asked for on another connection."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        for line in stream.lines():
            if line.endswith(b"\n"):
                yield line


def _name(thing: Mapping[str, Any]) -> str:
    return str(thing["metadata"]["name"])


def batches(watch: Watch, wait_s: float) -> Iterator[Sequence[Change]]:
    """Yield all that there is, then what changes, at least every ``wait_s`` seconds; the watch ends with the iterator."""
    try:
        yield watch.begin()
        while True:
            yield watch.changes(wait_s)
    finally:
        watch.close()
