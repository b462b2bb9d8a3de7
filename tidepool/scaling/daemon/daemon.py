"""The process around the loop: when the next turn is due, what is said of it, and how it ends."""

from __future__ import annotations

import gc
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tidepool.scaling.daemon.events import Voice
from tidepool.scaling.daemon.health import HealthServer, notify
from tidepool.scaling.daemon.loop import Loop, Turn
from tidepool.scaling.daemon.wake import Wake

#: At rest it is searched after so long; at work, where no turn waits for long, after so much more.
_AT_REST_S: Final = 60.0
_AT_WORK_S: Final = 900.0
#: A pause as long as this is rest.
_PAUSE_S: Final = 0.3


class Garbage:
    """Searches when `between_turns` says so, and not by itself."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        gc.disable()
        self._monotonic_s = monotonic_s
        self._searched_at_s = monotonic_s()

    def between_turns(self, pause_s: float) -> None:
        """The next turn is due in ``pause_s``."""
        since_s = self._monotonic_s() - self._searched_at_s
        if since_s >= (_AT_REST_S if pause_s >= _PAUSE_S else _AT_WORK_S):
            gc.collect()
            self._searched_at_s = self._monotonic_s()

    def close(self) -> None:
        gc.enable()


#: Where the health pages are, for people and for `tidepool watch`.
ADDRESS_FILE: Final = "listen.json"
#: After so long without a turn the daemon is not well.
_SILENCE_S: Final = 30.0
#: When it ends, an `up` that is under way may end first; afterwards it goes on alone.
_LAST_UP_S: Final = 60.0
#: How often it is looked, then, whether that has ended.
_LOOK_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Listen:
    """The address of the health pages."""

    host: str = "127.0.0.1"
    port: int = 0


class NoAddress(Exception):
    """The health pages cannot be where they should be; the text says why."""


class Daemon:
    """Turns the loop until it is told to end."""

    def __init__(
        self, loop: Loop, voice: Voice, folder: Path, environment: Mapping[str, str], wake: Wake
    ) -> None:
        self._loop = loop
        self._voice = voice
        self._folder = folder
        self._environment = environment
        self._wake = wake
        self._is_ending = False
        self._last: Turn | None = None
        self._last_at: datetime | None = None
        self._told = "", ""
        self._address: dict[str, Any] = {}

    def end(self) -> None:
        """Have it end, from a signal or another thread."""
        self._is_ending = True
        self._wake.set()

    def run(self, listen: Listen | None, beside: Executor) -> None:
        """Turn until `end`. ``beside`` is the loop's executor.

        Raises:
            NoAddress: the health pages' address is not to be had.
        """
        garbage = Garbage(time.monotonic)
        server = None
        if listen is not None:
            try:
                server = HealthServer(listen.host, listen.port, self.health, self._voice.metrics.text)
            except OSError as error:
                raise NoAddress(error.strerror or str(error)) from error
            self._address = {"host": listen.host, "port": server.port, "pid": os.getpid()}
            self._voice.say("listens", text=f"http://{listen.host}:{server.port}/healthz and /metrics")
        notify(self._environment, "READY=1")
        try:
            while not self._is_ending:
                turn = self.once()
                garbage.between_turns(turn.again_in_s)
                self._wake.wait(turn.again_in_s)
                # What sets it from here on is seen by the turn that follows, an order to end before that.
                self._wake.clear()
            notify(self._environment, "STOPPING=1")
            self._let_end(_LAST_UP_S)
        finally:
            garbage.close()
            self._loop.stop()
            beside.shutdown(wait=False, cancel_futures=True)
            if server is not None:
                server.close()
                if self._shown_address() == self._address:
                    (self._folder / ADDRESS_FILE).unlink(missing_ok=True)

    def only_once(self, beside: Executor) -> Turn:
        """One turn that decides, and the end of all that it began."""
        try:
            turn = self.once()
            while turn.again_in_s == 0:
                turn = self.once()
            self._let_end(math.inf)
            return turn
        finally:
            self._loop.stop()
            beside.shutdown(wait=False)

    def once(self) -> Turn:
        turn = self._loop.turn()
        self._last, self._last_at = turn, datetime.now(UTC)
        self._voice.metrics.turned(turn, self._last_at)
        if turn.role != "stands by":
            self._show_address()
        self._tell(turn)
        return turn

    def health(self) -> tuple[bool, Mapping[str, Any]]:
        """Return whether it turns, and is not held still by something that is wrong; and how it is."""
        turn, at = self._last, self._last_at
        if turn is None or at is None:
            return False, {"role": "begins"}
        silent_s = (datetime.now(UTC) - at).total_seconds()
        is_well = turn.role != "holds still" and silent_s < _SILENCE_S + turn.again_in_s
        return is_well, {
            "role": turn.role,
            "text": turn.text,
            "lastTurn": at.isoformat(),
            "lagSeconds": {
                k: round(v, 3) for k, v in (turn.observation.lag_s if turn.observation else {}).items()
            },
            "complaints": dict(turn.observation.complaints) if turn.observation else {},
        }

    def _tell(self, turn: Turn) -> None:
        """Say what is new of it: the same trouble is said once, and that it is over."""
        complaints = sorted(turn.observation.complaints.items()) if turn.observation else []
        text = "; ".join([turn.text, *(f"{source}: {what}" for source, what in complaints)]).strip("; ")
        told = turn.role, text
        notify(self._environment, "WATCHDOG=1", f"STATUS={turn.role} {text}")
        if told == self._told:
            return
        was_told, self._told = self._told, told
        if turn.role == "leads" and not text:
            if was_told[0] not in ("", "stands by"):
                self._voice.say("goes-on", text="the scaler goes on")
            return
        self._voice.say(turn.role.replace(" ", "-"), text=f"{turn.role}: {text}" if text else turn.role)

    def _let_end(self, patience_s: float) -> None:
        """An `up` that is under way comes to its end, and what it came to is written down; this one leads until then."""
        if not self._loop.is_at_work:
            return
        self._voice.say("ending", text="an `up` is under way; its end is waited for")
        until = time.monotonic() + patience_s
        while self._loop.is_at_work:
            if time.monotonic() >= until:
                self._voice.say("ending", text="the `up` goes on alone; the next daemon sees what it came to")
                return
            self._wake.wait(_LOOK_S)
            self._wake.clear()
            self._loop.finish()

    def _show_address(self) -> None:
        """Have the file say where the pages of the leader are: another may have led meanwhile."""
        if self._address and self._shown_address() != self._address:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            written = self._folder / f"{ADDRESS_FILE}.{os.getpid()}"
            written.write_text(json.dumps(self._address))
            written.replace(self._folder / ADDRESS_FILE)

    def _shown_address(self) -> Any:
        try:
            return json.loads((self._folder / ADDRESS_FILE).read_text())
        except (OSError, ValueError):
            return None
