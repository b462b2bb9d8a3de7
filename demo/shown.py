"""The view of a demo while it runs: on a terminal the live view; else a line whenever something changed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rich.console import Group
from rich.live import Live

from tidepool.cli.explain.lines import drawn, glyphs_for
from tidepool.cli.explain.record import read_record
from tidepool.cli.explain.watch import LEAST_LINES, frame
from tidepool.cli.explain.watch_view import WatchView, watching
from tidepool.scaling.ports import Journal

_LINE_S: Final = 1.0


@dataclass(slots=True)
class Shown:
    """A view of what the scaler of ``stack`` does, and beside it what the demo itself knows of its work."""

    live: Live
    journal: Journal
    stack: str
    begun_s: float = 0.0
    told: str = ""
    told_s: float = 0.0

    def view(self) -> WatchView:
        """Return what is known now."""
        return watching(read_record(self.journal, self.stack, datetime.now(UTC).astimezone()))

    def show(self, view: WatchView, progress: Sequence[str], line: str, *, is_last: bool = False) -> None:
        """Show ``progress`` below the view; else ``line``, once a second at most, unless it ``is_last``."""
        now_s = time.monotonic()
        self.begun_s = self.begun_s or now_s
        console = self.live.console
        if console.is_terminal:
            lines = max(LEAST_LINES, console.height - len(progress) - 2)
            drawn_view = drawn(frame(view, console.width, lines, glyphs_for(console.encoding)))
            self.live.update(Group(drawn_view, "", *progress), refresh=True)
        elif line != self.told and (is_last or now_s - self.told_s >= _LINE_S):
            console.print(f"{now_s - self.begun_s:5.1f} s  {line}", markup=False, soft_wrap=True)
            self.told, self.told_s = line, now_s
