"""Progress of a build: events for whoever shows them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """The phases of a build, in their order. One that has nothing to do is left out."""

    WAIT = "waiting for another build of the same image"
    ASK = "asking the mirror"
    DOWNLOAD = "downloading packages"
    UNPACK = "unpacking packages"
    CONFIGURE = "configuring packages"
    ROLES = "applying roles"
    CLEAN = "cleaning"
    WRITE = "writing"


@dataclass(frozen=True)
class Progress:
    """``fraction`` (0 to 1) of ``phase`` is done; ``text`` says what is under way."""

    phase: Phase
    fraction: float
    text: str = ""


Observer = Callable[[Progress], None]


def unseen(_progress: Progress) -> None:
    """The observer that shows nothing."""


class BuildLines:
    """Reads the progress from what dpkg and Ansible say, line by line."""

    _DPKG = re.compile(r"(?P<verb>Unpacking|Setting up) (?P<what>[^ (]+) \(")
    _TASK = re.compile(r"TASK \[(?P<what>.+)\] \**")

    def __init__(self, *, packages: int, tasks: int) -> None:
        self._total = {Phase.UNPACK: packages, Phase.CONFIGURE: packages, Phase.ROLES: tasks}
        self._seen = dict.fromkeys(self._total, 0)

    def read(self, line: str) -> Progress | None:
        if match := self._DPKG.match(line):
            return self._one_more(
                Phase.UNPACK if match["verb"] == "Unpacking" else Phase.CONFIGURE, match["what"]
            )
        if match := self._TASK.match(line):
            return self._one_more(Phase.ROLES, match["what"])
        return None

    def _one_more(self, phase: Phase, what: str) -> Progress:
        # A package may be unpacked twice (once before all others, once with them), so there is a ceiling.
        progress = Progress(phase, min(1.0, self._seen[phase] / max(1, self._total[phase])), what)
        self._seen[phase] += 1
        return progress
