"""Hosts that failed when they were switched on: they are left alone for a while, longer each time, so that others are tried first."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from tidepool.infrastructures.boot_media.media import Kept

_FIRST_S: Final = 3600.0
_MOST_S: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A host failed ``count`` times, one after the other, and at ``at`` (seconds since 1970) for the reason ``why``."""

    at: float
    count: int
    why: str

    @property
    def until(self) -> float:
        return self.at + min(_MOST_S, _FIRST_S * 2.0 ** (self.count - 1))


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures of a stack's hosts, in files of this machine. Who removes one has that host taken again at once."""

    kept: Kept

    def note(self, host: str, why: str, now: float | None = None) -> None:
        before = self._read(self._path(host))
        failure = Failure(time.time() if now is None else now, before.count + 1 if before else 1, why)
        self.kept.write_file(self._path(host), json.dumps(asdict(failure)))

    def clear(self, host: str) -> None:
        self._path(host).unlink(missing_ok=True)

    def resting(self, now: float | None = None) -> Mapping[str, str]:
        """Return the hosts that are left alone, each with why, until when, and how that ends sooner."""
        found = {}
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else ():
            failure = self._read(path)
            if failure is not None and (time.time() if now is None else now) < failure.until:
                until = datetime.fromtimestamp(failure.until).astimezone().strftime("%Y-%m-%d %H:%M")
                found[path.stem] = (
                    f"it failed {_times(failure.count)}, and is left alone until {until} ({failure.why}); to have it taken at once: rm {path}"
                )
        return found

    @property
    def _folder(self) -> Path:
        return self.kept.folder / "failures"

    def _path(self, host: str) -> Path:
        return self._folder / f"{host}.json"

    @staticmethod
    def _read(path: Path) -> Failure | None:
        try:
            return Failure(**json.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            return None


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times, one after the other"
