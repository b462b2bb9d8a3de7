"""slurmctld on its host: whether it runs by the files that are there, and how it is brought to do so."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from tidepool.clients.slurm import ControllerDown, Refused, Slurm, SlurmError, Transport
from tidepool.provider.machines import read_pid
from tidepool.provider.slurm_effects import PartitionOrder, setting
from tidepool.resources.kind import Refusal

#: Slurm's commands wait 10 s for a controller that does not answer; one that starts answers at once.
_ASKING_S: Final = 5.0
#: Measured: one that takes over answers within 7 s.
_TAKES_OVER_S: Final = 20.0
_LOOK_S: Final = 0.02
_SLOW_S: Final = 0.25
_MOST_LOOK_S: Final = 1.0
#: One that ends by itself as often as its supervisor starts it is not waited for.
_FATAL_AFTER_S: Final = 2.0
_BEGIN_AFTER_S: Final = 1.0
_TOLD_LINES: Final = 8
_TIMEOUT_S: Final = 30.0
#: By systemd, where it supervises it; else by a request to our own first process.
_REQUEST: Final = "/run/tidepool/start/slurmctld"
_BEGIN: Final = f"""\
systemctl start --no-block tidepool-slurmctld 2>/dev/null && exit
mkdir -p /run/tidepool/start && : >{_REQUEST}
case $(cat /proc/1/comm) in init*) kill -HUP 1 ;; esac
"""
#: The same where it runs. By systemd; else by that request, which is seen when slurmctld ($1) ends, or at once where it has. Any other
#: supervisor starts what ended.
_RESTART: Final = f"""\
systemctl restart --no-block tidepool-slurmctld 2>/dev/null && exit
mkdir -p /run/tidepool/start && : >{_REQUEST}
test "$(cat "/proc/$1/comm" 2>/dev/null)" != slurmctld || kill -TERM "$1"
case $(cat /proc/1/comm) in init*) kill -HUP 1 ;; esac
"""


@dataclass(frozen=True, slots=True)
class Slurmctld:
    """The slurmctld on ``host``, whose files are ``files``.

    With ``stands_by`` it is the backup of one on a pool's machine, which is not always there.
    """

    host: Transport
    files: Mapping[str, str]
    stands_by: bool = False

    @classmethod
    def of(cls, host: Transport, machine: str, files: Mapping[str, str]) -> Self:
        """Return that of ``host``, which is ``machine`` of its cluster."""
        primary = setting(files, "SlurmctldHost", "").partition("(")[0]
        return cls(host, files, stands_by=(machine or primary) != primary)

    def pid(self) -> int | None:
        """Its process on its host; None where it does not run."""
        return read_pid(self.host, setting(self.files, "SlurmctldPidFile", "/var/run/slurmctld.pid"))

    def is_up(self, *, takes_over: bool = False) -> bool:
        """Return whether the controller in charge answers. With ``takes_over`` this one is, afterwards.

        A backup that only stands by answers as well, and commands that reach it then sleep for half a
        SlurmctldTimeout before they try again. One whose primary is not there is told to take over: it would wait for
        that one.
        """
        try:
            found = Slurm(self.host, _ASKING_S).ping()
            if not takes_over and any(each.is_up and each.role == "primary" for each in found):
                return True
            if not self.stands_by or not any(each.is_up for each in found):
                return False
            slurm = Slurm(self.host, _TAKES_OVER_S)
            slurm.takeover()  # no change where it is in charge already
            slurm.version()
            return True
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
                is_there = order.name in there
                if is_there or order.verb == "create":
                    slurm.change_partition(
                        "update" if is_there and order.verb == "create" else order.verb,
                        order.name,
                        order.settings,
                    )
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
        """Have its supervisor start it again, though it ended on purpose; gives the process that ended."""
        pid = self.pid()
        self.host.run(
            ["sh", "-c", _RESTART, "restart", *([] if pid is None else [str(pid)])], timeout_s=_TIMEOUT_S
        )
        return pid

    def begin(self) -> None:
        """Have its supervisor start it where it ended on purpose, as when another one took over; else nothing."""
        self.host.run(["sh", "-c", _BEGIN], timeout_s=_TIMEOUT_S)

    def log_size(self) -> int:
        read = self.host.run(["stat", "--format=%s", self._log], timeout_s=_TIMEOUT_S)
        return int(read.stdout) if read.exit_code == 0 else 0

    def wait_up(self, deadline: float, *, other_than: int | None = None, said_before: int = 0) -> None:
        """Wait until it answers, and is not the process ``other_than``. One that ends on purpose meanwhile is started again.

        Raises:
            Refusal: it does not until the deadline, or says why it cannot; with what it said since ``said_before``.
        """
        start, pause = time.monotonic(), threading.Event()
        begin_at = start + _BEGIN_AFTER_S
        while True:
            began = time.monotonic()
            is_new = other_than is None or self.pid() not in {None, other_than}
            # The primary on a pool's machine reads the files when it is started again, by its role.
            if is_new and self.is_up(takes_over=self.stands_by and other_than is not None):
                # A request that nobody needed would undo a later takeover.
                self.host.run(["rm", "-f", _REQUEST], timeout_s=_TIMEOUT_S)
                return
            now = time.monotonic()
            if now > begin_at:
                # Whoever took over did so after the look at it: by itself it would stay down, and the files be refused for that.
                self.begin()
                begin_at = now + _BEGIN_AFTER_S
            if now > deadline or now - start > _FATAL_AFTER_S:
                said = self.last_words(said_before)
                fatal = any("fatal:" in line for line in said)
                if fatal or now > deadline:
                    raise Refusal(self._failure(now - start, said))
            # Where asking takes long, slurmctld gets some of the processor that both are on.
            took_s = now - began
            pause.wait(min(took_s, _MOST_LOOK_S) if took_s > _SLOW_S else _LOOK_S)

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
