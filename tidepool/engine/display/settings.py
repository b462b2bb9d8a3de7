"""Settings of a display: its operation, and what of it to show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tidepool.engine.events import Event

#: Which verb is shown: it gives the headline.
Kind = Literal["preview", "update", "refresh", "destroy"]

_RUNNING: Final[dict[Kind, str]] = {
    "preview": "Previewing",
    "update": "Updating",
    "refresh": "Refreshing",
    "destroy": "Destroying",
}
_PREVIEWED: Final[dict[Kind, str]] = {
    "preview": "update",
    "update": "update",
    "refresh": "refresh",
    "destroy": "destroy",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The operation, and what of it to show. The defaults are those of the Pulumi CLI's flags."""

    kind: Kind
    is_preview: bool
    stack: str
    project: str
    color: bool = False
    show_secrets: bool = False
    show_sames: bool = False
    show_reads: bool = False
    show_replacement_steps: bool = False
    show_config: bool = False
    show_urns: bool = False
    show_full_output: bool = False
    suppress_outputs: bool = False
    suppress_progress: bool = False
    debug: bool = False

    @property
    def label(self) -> str:
        """The headline's words: "Updating", "Previewing destroy"."""
        return f"Previewing {_PREVIEWED[self.kind]}" if self.is_preview else _RUNNING[self.kind]


class Display(Protocol):
    """Something that shows an operation. Given all events in order, from one thread at a time."""

    def event(self, event: Event) -> None:
        """Show ``event``."""
        ...

    def cancelling(self) -> None:
        """Show that the person asked to end: what is under way ends, nothing new begins."""
        ...

    def close(self) -> None:
        """Show what is left to be shown and give the terminal back. Called once, also after a failure."""
        ...
