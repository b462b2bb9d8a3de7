"""slurmctld on its host: whether it runs by the files that are there, and how it is brought to do so."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidepool.provider.errors import Refusal
from tidepool.provider.slurm_effects import setting
from tidepool.slurm import Slurm, SlurmError, Transport

#: Slurm's commands wait 10 s for a controller that does not answer; one that starts answers at once.
_ASKING_S: Final = 5.0
_LOOK_S: Final = 0.02
#: One that ends by itself as often as its supervisor starts it is not waited for.
_FATAL_AFTER_S: Final = 2.0
_TOLD_LINES: Final = 8
_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Slurmctld:
    """The slurmctld on ``host``, whose files are ``files``."""

    host: Transport
    files: Mapping[str, str]

    def pid(self) -> int | None:
        """Its process on its host; None where it does not run."""
        path = setting(self.files, "SlurmctldPidFile", "/var/run/slurmctld.pid")
        read = self.host.run(["cat", path], timeout_s=_TIMEOUT_S)
        text = read.stdout.strip()
        return int(text) if read.exit_code == 0 and text.isdecimal() else None

    def is_up(self) -> bool:
        """Whether a controller answers."""
        try:
            return any(each.is_up for each in Slurm(self.host, _ASKING_S).ping())
        except SlurmError:
            return False

    def restart(self) -> int | None:
        """Have it end, so that its supervisor starts it again; gives the process that ended."""
        pid = self.pid()
        if pid is not None:
            self.host.run(["kill", "-TERM", str(pid)], timeout_s=_TIMEOUT_S)
        return pid

    def log_size(self) -> int:
        """How much it has said so far."""
        read = self.host.run(["stat", "--format=%s", self._log], timeout_s=_TIMEOUT_S)
        return int(read.stdout) if read.exit_code == 0 else 0

    def wait_up(self, deadline: float, *, other_than: int | None = None, said_before: int = 0) -> None:
        """Wait until it answers, and is not the process ``other_than``.

        Raises:
            Refusal: it does not until the deadline, or says why it cannot; with what it said since ``said_before``.
        """
        start, pause = time.monotonic(), threading.Event()
        while True:
            if self.is_up() and (other_than is None or self.pid() not in {None, other_than}):
                return
            now = time.monotonic()
            if now > deadline or now - start > _FATAL_AFTER_S:
                said = self.last_words(said_before)
                fatal = any("fatal:" in line for line in said)
                if fatal or now > deadline:
                    raise Refusal(self._failure(now - start, said))
            pause.wait(_LOOK_S)

    def last_words(self, said_before: int = 0) -> list[str]:
        """The end of its log, errors alone where there are some."""
        try:
            read = self.host.run(["tail", f"--bytes=+{said_before + 1}", self._log], timeout_s=_TIMEOUT_S)
        except SlurmError as error:
            return [str(error)]
        lines = [line.partition("] ")[2] or line for line in read.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith(("fatal:", "error:"))]
        return list(dict.fromkeys(errors or lines))[-_TOLD_LINES:]

    @property
    def _log(self) -> str:
        return setting(self.files, "SlurmctldLogFile", "/var/log/slurm/slurmctld.log")

    def _failure(self, waited_s: float, said: list[str]) -> str:
        words = "".join(f"\n  {line}" for line in said) or " nothing"
        return f"slurmctld {self.host.where} does not run after {waited_s:.0f} s; it says:{words}"
