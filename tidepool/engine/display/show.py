"""Choosing and joining the displays of an operation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import IO

from tidepool.engine.display.plain import PlainDisplay
from tidepool.engine.display.settings import Display, SecretFilter, Settings
from tidepool.engine.errors import EngineError
from tidepool.engine.events import Event

_HEARTBEAT_S = 1.0


def make_display(
    settings: Settings,
    *,
    stdout: IO[str],
    stderr: IO[str],
    interactive: bool = False,
    diff: bool = False,
    json: bool = False,
    stream_previews: bool = False,
    event_log: str = "",
    secrets: Iterable[str] = (),
    clock: Callable[[], float] = time.monotonic,
    epoch: Callable[[], float] = time.time,
    heartbeat: bool = True,
) -> Display:
    """The display of one preview or operation.

    The keywords are those of the flags, and: ``stderr`` takes the messages of ``--diff``, and what is wrong with the
    displays themselves; on ``interactive`` terminals is drawn; with ``stream_previews`` (PULUMI_ENABLE_STREAMING_JSON_PREVIEW)
    ``json`` gives lines for previews too, and not one document; ``secrets`` are plaintexts to be masked wherever they
    appear; ``clock`` gives seconds for elapsed times, ``epoch`` those since 1970 for the event log; ``heartbeat`` lets a
    thread show, between events, that the operation goes on.

    Raises:
        EventLogError: when the event log cannot be opened.
    """
    shown: list[Display] = []
    if event_log or json:
        # Late: JSON is for other programs, and people need not wait for its parts.
        from tidepool.engine.display.event_log import EventLog, open_sink, stream_sink

        if event_log:
            shown.append(EventLog(open_sink(event_log), epoch, raw_color=settings.color))
        if json and (stream_previews or not settings.is_preview):
            shown.append(EventLog(stream_sink(stdout), epoch, raw_color=settings.color, internal=False))
    if json and settings.is_preview and not stream_previews:
        from tidepool.engine.display.digest import DigestDisplay

        shown.append(DigestDisplay(stdout, settings))
    tick: Callable[[], None] | None = None
    interval_s = _HEARTBEAT_S
    if not json:
        main: Display
        if diff:
            from tidepool.engine.display.plain import DiffDisplay

            main = DiffDisplay(stdout, stderr, settings)
        elif interactive:
            from tidepool.engine.display.live import FRAME_S, LiveDisplay

            main = live = LiveDisplay(stdout, settings, clock)
            tick, interval_s = live.tick, 1.2 * FRAME_S
        else:
            main = plain = PlainDisplay(stdout, settings, clock)
            tick = plain.tick
        shown.append(main)
    return _Joined(shown, SecretFilter(secrets), stderr, tick if heartbeat else None, interval_s)


class _Joined:
    """Several displays as one: secrets are taken out first, and no display can stop the operation."""

    def __init__(
        self,
        displays: Iterable[Display],
        secret_filter: SecretFilter,
        stderr: IO[str],
        tick: Callable[[], None] | None,
        interval_s: float,
    ) -> None:
        self._displays = list(displays)
        self._filter = secret_filter
        self._stderr = stderr
        self._troubles: list[str] = []
        # The heartbeat comes from another thread than the events.
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._heart: threading.Thread | None = None
        if tick is not None:
            beat = partial(self._beat, tick, interval_s)
            self._heart = threading.Thread(target=beat, name="display-heartbeat", daemon=True)
            self._heart.start()

    def event(self, event: Event) -> None:
        event = self._filter.event(event)
        with self._lock:
            self._each(lambda display: display.event(event))

    def cancelling(self) -> None:
        with self._lock:
            self._each(lambda display: display.cancelling())

    def close(self) -> None:
        self._ended.set()
        if self._heart is not None:
            self._heart.join()
        with self._lock:
            self._each(lambda display: display.close())
            for trouble in self._troubles:
                self._stderr.write(f"warning: {trouble}\n")
            self._displays = []
            self._troubles = []

    def _each(self, act: Callable[[Display], None]) -> None:
        for display in list(self._displays):
            try:
                act(display)
            except (OSError, EngineError) as error:
                # A reader that went away (`pulumi up | head`) is no reason to leave resources half made.
                self._displays.remove(display)
                self._troubles.append(f"this display is not complete: {error}")

    def _beat(self, tick: Callable[[], None], interval_s: float) -> None:
        while not self._ended.wait(interval_s):
            with self._lock:
                if self._ended.is_set():
                    return
                try:
                    tick()
                except OSError:
                    return  # the next event meets the same trouble, and tells of it
