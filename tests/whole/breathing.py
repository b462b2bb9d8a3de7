"""A cluster that breathes: `Cluster` with the daemon `tidepool scale` beside it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.forking import ForkedProcess, fork_server
from tests.whole.cluster import LONG_S, Cluster, namespace_of, until
from tidepool.cli.context import Context
from tidepool.cli.stack import find_stack
from tidepool.clients.slurm import Job, JobState, SlurmError
from tidepool.infrastructures.boot_times import LAUNCH_PHASES, LaunchPhase
from tidepool.infrastructures.local import kernel

#: No node without a job; one that is idle goes soon.
FLEETS: list[dict[str, Any]] = [
    {
        "name": "cpu",
        "subnet": "10.78.1.0/24",
        "max_nodes": 6,
        "shape": {"cpus": 2, "memory": "256MiB"},
        "idle_timeout_s": 1,
    }
]


@dataclass
class Daemon:
    """A `tidepool scale` of its own process group."""

    cluster: Cluster
    log: Path
    process: subprocess.Popen[bytes] | ForkedProcess

    @classmethod
    def fork(cls, cluster: Cluster, name: str = "daemon") -> Daemon:
        """One that runs, with a warm engine and plugins that are forked as well (`tests.forking`)."""
        inside = namespace_of(cluster.through)
        if inside is None:
            return cls.start(cluster, name)
        log = cluster.folder / f"{name}.log"
        words = ["-m", "tidepool.cli", "--stack", cluster.stack, "scale"]
        with Path(os.devnull).open("rb") as nothing, log.open("ab") as out:
            streams = [nothing.fileno(), out.fileno(), out.fileno()]
            process = fork_server().fork(words, cluster.folder, cluster.environment, streams, inside)
        return cls(cluster, log, process)

    @classmethod
    def start(cls, cluster: Cluster, name: str = "daemon") -> Daemon:
        """The same, started as a service does it."""
        log = cluster.folder / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [*cluster.command, "scale"],
                cwd=cluster.folder,
                env=cluster.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return cls(cluster, log, process)

    def said(self) -> str:
        """All that it wrote."""
        return self.log.read_text()

    def health(self) -> dict[str, Any]:
        """What /healthz says; empty as long as nothing listens."""
        try:
            at = json.loads((self.cluster.data / self.cluster.stack / "scaler" / "listen.json").read_text())
            with urllib.request.urlopen(f"http://{at['host']}:{at['port']}/healthz", timeout=5) as answer:
                told = answer.read()
        except urllib.error.HTTPError as error:
            told = error.read()
        except (OSError, ValueError):
            return {}
        found: dict[str, Any] = json.loads(told)
        return found

    def until_role(self, *roles: str, timeout_s: float = 60) -> None:
        """Until it says of itself that it ``leads``, ``holds still``, ...: one of these."""
        until(
            lambda: self.health().get("role") in roles or None, f"the daemon {' or '.join(roles)}", timeout_s
        )

    def signal(self, number: int) -> None:
        """To it alone, not to what it started."""
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """As nothing expects it, where it is alive."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """As a person or a service does it; its exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        return self.process.wait(90)


@contextmanager
def killed_after(daemon: Daemon) -> Iterator[Daemon]:
    """``daemon``, of which nothing runs any more afterwards, whatever comes of the test."""
    try:
        yield daemon
    finally:
        daemon.kill()


@contextmanager
def breathing(cluster: Cluster) -> Iterator[Daemon]:
    """The daemon runs, and has ended well afterwards."""
    daemon = Daemon.fork(cluster)
    try:
        daemon.until_role("leads")
        yield daemon
    except BaseException:
        # What pytest shows of a test that failed.
        print(daemon.said()[-6000:])  # noqa: T201
        with suppress(SlurmError):
            print(cluster.on("ctl", "tail", "--lines=80", "/var/log/slurm/slurmctld.log").stdout)  # noqa: T201
        raise
    finally:
        code = daemon.end()
    assert code == 0, daemon.said()
    assert "Traceback" not in daemon.said(), daemon.said()


def scale_until(cluster: Cluster, is_so: Callable[[], bool], what: str, timeout_s: float = LONG_S) -> None:
    """Have the daemon look, decide and act until something is so. What it has begun is done when this ends."""
    (cluster.folder / "scaler.log").unlink(missing_ok=True)
    with killed_after(Daemon.fork(cluster, "scaler")) as daemon:
        # By its log: its health may be on the loopback of another network.
        until(lambda: "leads (epoch" in daemon.said() or None, "the daemon leads", timeout_s)
        until(lambda: is_so() or None, what, timeout_s, max(1.0, cluster.pause_s or 0))
        assert daemon.end() == 0, daemon.said()
    assert "Traceback" not in daemon.said(), daemon.said()


def launches(
    cluster: Cluster, *known: LaunchPhase, unknown: LaunchPhase | None = None
) -> list[dict[str, str]]:
    """The report's table of launches, each with its phases, which are together as long as it took.

    Each knows those that are ``known``, and what it cannot tell of is empty.
    """
    table = cluster.folder / "launches.csv"
    cluster.tidepool("report", "--launches", "--csv", str(table))
    with table.open(encoding="utf-8") as stream:
        found = list(csv.DictReader(stream))
    assert found
    for row in found:
        phases = {phase: row[f"{phase}_s"] for phase in LAUNCH_PHASES}
        assert sum(map(float, filter(None, phases.values()))) == pytest.approx(
            float(row["total_s"]), abs=0.02
        ), row
        assert all(phases[phase] for phase in known), row
        assert unknown is None or phases[unknown] == "", row
    return found


def machines(cluster: Cluster) -> list[str]:
    """The machines of nodes that are there in whatever state."""
    return sorted(
        each.name
        for each in kernel.list_machines(cluster.data, cluster.stack)
        if each.name.startswith("cpu-")
    )


def until_empty(cluster: Cluster, timeout_s: float = 60) -> None:
    """Until no machine of a node is there, Slurm knows of none, and the stack neither."""
    until(lambda: not machines(cluster) or None, "all nodes are gone", timeout_s)
    until(lambda: not cluster.nodes() or None, "Slurm has only slots", timeout_s)
    until(lambda: not wish(cluster) or None, "the stack's outputs name no node", timeout_s)


def wish(cluster: Cluster) -> str:
    """The nodes of the fleet `cpu` by the stack's outputs: a hostlist."""
    stack = find_stack(Context(cluster.environment, cluster.folder), cluster.stack, None)
    return str((stack.outputs() or {})["fleets"]["cpu"])


def completed(cluster: Cluster, jobs: list[int], timeout_s: float = 90) -> list[Job]:
    """The records of ``jobs``, which must all end well."""
    return [cluster.until_job(job, JobState.COMPLETED, timeout_s=timeout_s) for job in jobs]
