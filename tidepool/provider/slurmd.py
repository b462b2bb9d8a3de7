"""slurmd on its machine: whether it runs, what runs under it, and how it is started again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tidepool.clients.slurm import SlurmError, Transport

#: As Tidepool's slurm.conf has it.
_PID_FILE: Final = "/run/slurmd.pid"
_TIMEOUT_S: Final = 10.0
_STEP = re.compile(r"slurmstepd: \[(\d+)\.")


@dataclass(frozen=True, slots=True)
class Slurmd:
    """The slurmd on ``host``."""

    host: Transport

    def pid(self) -> int | None:
        """Its process there; None where it does not run, or cannot be asked for."""
        try:
            read = self.host.run(["cat", _PID_FILE], timeout_s=_TIMEOUT_S)
        except SlurmError:
            return None
        text = read.stdout.strip()
        return int(text) if read.exit_code == 0 and text.isdecimal() else None

    def restart_if_still(self, pid: int | None) -> int | None:
        """Have it end where it is still the process ``pid``, so that its supervisor starts it again.

        Gives the process that runs and was not ended.
        """
        now = self.pid()
        if now is None or now != pid:
            return now
        try:
            self.host.run(["kill", "-TERM", str(now)], timeout_s=_TIMEOUT_S)
        except SlurmError:
            return now  # who waits for it looks again
        return None

    def job_ids(self) -> tuple[int, ...]:
        """The jobs whose steps run there; no controller is asked. None where the machine is gone.

        Raises:
            SlurmError: the machine is there, and cannot be asked.
        """
        listed = self.host.run(["ps", "-C", "slurmstepd", "-o", "args="], timeout_s=_TIMEOUT_S)
        return tuple(sorted({int(found[1]) for found in _STEP.finditer(listed.stdout)}))
