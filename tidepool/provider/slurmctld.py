"""slurmctld on its host: whether it runs by the files that are there, and how it is brought to do so."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidepool.provider.errors import Refusal
from tidepool.provider.partition_orders import PartitionOrder, Verb
from tidepool.provider.slurm_effects import setting
from tidepool.slurm import ControllerDown, Refused, Slurm, SlurmError, Transport

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
        """Whether the controller in charge answers.

        A backup that only stands by answers as well, and commands that reach it then sleep for half a
        SlurmctldTimeout before they try again.
        """
        try:
            return any(each.is_up and each.role == "primary" for each in Slurm(self.host, _ASKING_S).ping())
        except SlurmError:
            return False

    def give(self, orders: Iterable[PartitionOrder]) -> None:
        """Have it change its partitions. Orders that were carried out already are no mistake.

        Raises:
            Refused: Slurm does not take one of them; those before it are carried out.
        """
        slurm = Slurm(self.host)
        try:
            there = {partition.name for partition in slurm.partitions()}
            for order in orders:
                match order.verb, order.name in there:
                    case Verb.CREATE, False:
                        slurm.create_partition(order.name, order.settings)
                    case ((Verb.CREATE | Verb.UPDATE), True):
                        slurm.update_partition(order.name, order.settings)
                    case Verb.DELETE, True:
                        slurm.delete_partition(order.name)
        except ControllerDown:
            return  # it reads the files when it starts

    def reconfigure(self) -> None:
        """Have all daemons read the files again, as far as a reconfigure goes.

        Raises:
            Refused: Slurm does not take them, and goes on with the former ones.
        """
        try:
            Slurm(self.host).reconfigure()
        except ControllerDown:
            return  # it reads them when it starts
        except Refused as error:
            if "requires restart" not in error.words:
                raise

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
