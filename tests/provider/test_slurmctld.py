"""slurmctld on its host, by what it is told there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tidepool.clients.transport import Completed
from tidepool.provider.slurmctld import Slurmctld

ENDING = Completed(1, "", "slurm_reconfigure error: Operation now in progress\n")
UP = Completed(0, "Slurmctld(primary) at ctl is UP\nSlurmctld(backup) at ctlbackup is UP\n", "")


@dataclass
class Host:
    """One on which slurmctld is ending; then it is up as soon as somebody has asked its supervisor to start it."""

    where: str = "on ctl"
    asked: bool = False
    requests: int = 0

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        words = " ".join(argv)
        if "scontrol" in words and "reconfigure" in words:
            return ENDING
        if "scontrol" in words and "ping" in words:
            return UP if self.asked else Completed(1, UP.stdout.replace("UP", "DOWN"), "")
        if argv[0] == "sh":
            self.asked = "start/slurmctld" in words and "-TERM" not in words
            self.requests += 1
        elif argv[0] == "rm":
            self.requests -= 1
        return Completed(0, "", "")

    def close(self) -> None:
        return


def test_one_that_ends_while_it_is_to_read_its_files_is_started_to_read_them() -> None:
    """Another takes over from it just now: by itself it would stay down, and the change be refused for that."""
    host = Host()
    slurmctld = Slurmctld(host, {})
    slurmctld.reconfigure()
    slurmctld.wait_up(time.monotonic() + 10)
    assert host.asked
    assert host.requests == 0, "else the next takeover would be undone"
