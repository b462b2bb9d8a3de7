"""`PodTimes`: when pods were given a node and ran, by a watch of the API; that is by the clock of who watches."""

from __future__ import annotations

import json
import threading
import time
from typing import Final

from tidepool.clients.kubernetes.exchange import Exchange
from tidepool.lab.errors import SchedulerFailed

_LASTS_S: Final = 6 * 3600


class PodTimes:
    """Watches the pods of a ``collection`` with a label's value, from ``version`` on, until it is closed."""

    def __init__(self, api: Exchange, collection: str, selector: str, version: str) -> None:
        self.decided: dict[str, float] = {}
        self.running: dict[str, float] = {}
        self.gone: set[str] = set()
        self._failure = ""
        self._path = f"{collection}?watch=1&labelSelector={selector}&timeoutSeconds={_LASTS_S}"
        self._version = version
        self._thread = threading.Thread(target=self._read, args=(api,), name="pods", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise `SchedulerFailed` where the watch broke off."""
        if self._failure:
            raise SchedulerFailed(f"the watch of pods broke off: {self._failure}")

    def _read(self, api: Exchange) -> None:
        try:
            while True:
                # The server ends a watch whose reader is behind; nothing is lost, as the next begins where that one was.
                path = f"{self._path}&resourceVersion={self._version}"
                with api.stream(path, _LASTS_S) as stream:
                    for line in stream.lines():
                        self._take(line, time.time())
        except Exception as error:
            self._failure = str(error)
            raise

    def _take(self, line: bytes, now_s: float) -> None:
        event = json.loads(line)
        if event["type"] == "ERROR":
            raise SchedulerFailed(str(event["object"].get("message")))
        thing = event["object"]
        name, self._version = thing["metadata"]["name"], str(thing["metadata"]["resourceVersion"])
        if thing["spec"].get("nodeName"):
            self.decided.setdefault(name, now_s)
        if thing.get("status", {}).get("phase") == "Running":
            self.running.setdefault(name, now_s)
        if event["type"] == "DELETED":
            self.gone.add(name)
