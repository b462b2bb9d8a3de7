"""Brokers on the laboratory's machines: one for each, and a leader on the controller's machine, where slurmctld is as well."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tidepool.clients.transport import ClientError, Completed, NotRunning, Transport
from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.schedulers.flux.configuration import configuration

#: Where images have what the folder of `TIDEPOOL_FOLDER_FLUX` brings (images/debian-12-flux).
FLUX: Final = "/opt/flux/bin/flux"
_RUN: Final = "/run/flux"
_URI: Final = f"local://{_RUN}/local"
_PIDFILE: Final = f"{_RUN}/broker.pid"
_ASKED_S: Final = 30.0
_WHOLE_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.1
#: A broker ends its jobs first, by programs of Python; what is left after so many seconds is killed.
_END: Final = "TERM/60/KILL/5"
_END_S: Final = 75.0
#: Processes by their names: of rank 0; its scheduler and what looks at each new job, which have their own; and on machines one for each job.
_LEADER: Final = "flux-broker-0"
_PARTS: Final = (_LEADER, "sched-simple", "job-validator", "flux-broker", "flux-shell")
_OPTIONS: Final = (
    f"-Srundir={_RUN}",
    f"-Slocal-uri={_URI}",
    "-Slog-stderr-mode=local",
    "-Slog-stderr-level=5",
    "-Slog-forward-level=-1",
    # It stays, with no program of its own to wait for, and runs jobs when the first machines are there.
    "-Sbroker.rc2_none",
    "-Sbroker.quorum=1",
    "-Sbroker.quorum-warn=none",
)


class _Gone(SchedulerFailed):
    """A machine does not run."""


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers of one Flux, which are there while a trial is under way.

    Attributes:
        leader: the way to the leader's machine.
        machines: ways to the others, by name, in the order of their ranks from 1.
        cores: that jobs may have of each.
        here: the folder of configuration and key, on /home, as this host sees it.
        there: the same as machines see it.
        names: gives the processes of a machine by their ids on this host, with their names.
        leader_machine: the leader's name for ``names``.
    """

    leader: Transport
    machines: Mapping[str, Transport]
    cores: int
    here: Path
    there: PurePosixPath
    names: Callable[[str], Mapping[int, str]]
    leader_machine: str

    def start(self) -> None:
        """Start all, and return when the leader has heard of each; those of a trial that was cut off are ended first.

        Raises:
            SchedulerFailed: one did not start, or was not heard of in time.
        """
        self.stop()
        self.here.mkdir(mode=0o700, parents=True)
        host = self._expect(self.leader, ["hostname"]).stdout.strip()
        certificate = self.there / "curve.cert"
        # It makes the file for its owner alone.
        self._expect(self.leader, [FLUX, "keygen", str(certificate)])
        text = configuration(host, tuple(self.machines), self.cores, certificate)
        (self.here / "flux.toml").write_text(text)
        for rank, (_, way) in enumerate(self._all()):
            self._start_broker(rank, way)
        deadline = time.monotonic() + _WHOLE_S
        while lack := self._lack():
            if time.monotonic() > deadline:
                raise SchedulerFailed(
                    f"Flux did not come up on {', '.join(self.machines)} within {_WHOLE_S:g} s: {lack}; see {_RUN}/broker.log on {host}"
                )
            time.sleep(_LOOK_EVERY_S)

    def start_those_that_ended(self) -> None:
        """Start brokers of machines that were dead and are back."""
        for rank, (machine, way) in enumerate(self._all()):
            there = self.names(machine)
            # Until it knows its rank, a broker has a shorter name.
            if there and not any(name.startswith("flux") for name in there.values()):
                try:
                    self._start_broker(rank, way)
                except _Gone:
                    continue  # it died again

    def stop(self) -> None:
        """End all, the leader first, which ends their jobs, and take away what they had; returns when nothing is left of them."""
        for rank, (_, way) in enumerate(self._all()):
            command = ["start-stop-daemon", "--stop", "--quiet", "--oknodo", f"--retry={_END}"]
            command += [f"--pidfile={_PIDFILE}", f"--name={_broker(rank)}"]
            try:
                self._expect(way, command, timeout_s=_END_S)
                self._expect(way, ["rm", "--recursive", "--force", _RUN])
            except _Gone:
                continue  # nothing is left of it either
        for name in ("curve.cert", "flux.toml"):
            (self.here / name).unlink(missing_ok=True)
        if self.here.is_dir():
            self.here.rmdir()

    def run(self, *arguments: str, stdin: str = "", timeout_s: float = _ASKED_S) -> Completed:
        """Run a command of Flux's where the leader is.

        Raises:
            SchedulerFailed: it did not end in time, or its machine is not there.
        """
        try:
            return self.leader.run(
                ["env", f"FLUX_URI={_URI}", FLUX, *arguments], stdin=stdin, timeout_s=timeout_s
            )
        except ClientError as error:
            raise SchedulerFailed(str(error)) from error

    def parts(self) -> Mapping[str, Sequence[int]]:
        """Return the ids on this host of its processes, by part; ``flux-broker`` are those of all machines but the leader's."""
        found: dict[str, list[int]] = {part: [] for part in _PARTS}
        for machine, _ in self._all():
            for pid, name in self.names(machine).items():
                part = "flux-broker" if name.startswith("flux-broker-") and name != _LEADER else name
                if part in found:
                    found[part].append(pid)
        return found

    def _lack(self) -> str:
        """Tell what it lacks to take jobs; empty where nothing."""
        # `15:50:11 run 1.2s,  owner root,  depth 0,  size 5`: the leader takes jobs when it runs, and not while it loads modules.
        up = self.run("uptime")
        if up.exit_code or "run" not in up.stdout.split()[1:2]:
            return _end_of(up)
        there = self.run("overlay", "status", "--summary")
        return "" if there.stdout.strip() == "full" else _end_of(there)

    def _all(self) -> Iterator[tuple[str, Transport]]:
        """Yield machines in the order of ranks, with the ways to them."""
        yield self.leader_machine, self.leader
        yield from self.machines.items()

    def _start_broker(self, rank: int, way: Transport) -> None:
        self._expect(way, ["install", "--directory", _RUN])
        command = ["start-stop-daemon", "--start", "--quiet", "--oknodo", "--background", "--make-pidfile"]
        command += [f"--pidfile={_PIDFILE}", f"--name={_broker(rank)}", f"--output={_RUN}/broker.log"]
        broker = ["broker", f"--config-path={self.there}", *_OPTIONS]
        self._expect(way, [*command, f"--startas={FLUX}", "--", *broker])

    def _expect(self, way: Transport, argv: Sequence[str], timeout_s: float = _ASKED_S) -> Completed:
        try:
            ended = way.run(argv, timeout_s=timeout_s)
        except NotRunning as error:
            raise _Gone(str(error)) from error
        except ClientError as error:
            raise SchedulerFailed(str(error)) from error
        if ended.exit_code:
            raise SchedulerFailed(
                f"{argv[0]} failed {way.where}: {_end_of(ended)}; is its image debian-12-flux?"
            )
        return ended


def _broker(rank: int) -> str:
    # The kernel keeps 15 characters.
    return f"flux-broker-{rank}"[:15]


def _end_of(ended: Completed) -> str:
    said = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
    return said[-1] if said else f"it ended with {ended.exit_code} and said nothing"
