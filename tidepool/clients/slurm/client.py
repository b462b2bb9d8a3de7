"""The client of Slurm by its commands, over any transport."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Literal, Self, TypeVar

from tidepool.clients.slurm.commands import error_of, judge
from tidepool.clients.slurm.contract import Controller, Malformed, NotFound, Refused, Submitted
from tidepool.clients.slurm.job import Job, JobState, parse_queue, squeue_format
from tidepool.clients.slurm.limits import Limited, parse_limits
from tidepool.clients.slurm.quantities import memory_mib
from tidepool.clients.slurm.request import JobRequest, Slots, node_names, one_line
from tidepool.clients.slurm.scontrol import (
    Node,
    Partition,
    Reservation,
    parse_node,
    parse_partition,
    parse_reservation,
)
from tidepool.clients.transport import Completed, Transport

#: Slurm itself waits 10 s for an answer (MessageTimeout) before it says that none came.
TIMEOUT_S: Final = 15.0

#: Times in seconds since the epoch, whatever the zone of the machine; indices of arrays in full; words in English.
#: With a zone that is named, the C library does not look its file up again for each time: squeue takes half as long.
ENVIRONMENT: Final = ("env", "LC_ALL=C", "TZ=UTC0", "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0")

#: Every listing of scontrol says so, where there is nothing to list; it then ends with 0 or 1.
_NOTHING_TO_LIST = re.compile(r"No (?:nodes|partitions|reservations|jobs) in the system")
_PING = re.compile(r"Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)")
_VERSION = re.compile(r"^SLURM_VERSION\s*=\s*(\S+)", re.MULTILINE)
_SUBMITTED = re.compile(r"(\d+)(?:;\S+)?")

_Record = TypeVar("_Record")


class Slurm:
    """A client of the cluster that ``transport`` leads to; every call ends within ``timeout_s`` seconds.

    See `SlurmClient` for what it can do. It may be used by several threads at once.
    """

    def __init__(self, transport: Transport, timeout_s: float = TIMEOUT_S) -> None:
        self._transport, self._timeout_s = transport, timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    # Looking

    def ping(self) -> tuple[Controller, ...]:
        argv = ["scontrol", "ping"]
        completed = self._run(argv)
        found = _PING.findall(completed.stdout)
        if not found:
            raise error_of(argv, completed, self._transport.where)
        return tuple(Controller(role, host, state == "UP") for role, host, state in found)

    def version(self) -> str:
        argv = ["scontrol", "show", "config"]
        found = _VERSION.search(self._ask(argv))
        if not found:
            raise self._malformed(argv, "SLURM_VERSION is missing")
        return found[1]

    def nodes(self, names: str = "") -> tuple[Node, ...]:
        chosen = [node_names(names)] if names else []
        return self._show(
            ["scontrol", "--all", "--future", "--oneliner", "show", "node", *chosen], parse_node
        )

    def jobs(self, states: Collection[JobState] = ()) -> tuple[Job, ...]:
        if set(states) >= set(JobState):
            # No release knows all of their names.
            return self._queue(["--states=all"])
        return self._queue([f"--states={','.join(sorted(states))}"] if states else [])

    def job(self, job_id: int) -> tuple[Job, ...]:
        return self._queue([f"--jobs={job_id:d}", "--states=all"])

    def partitions(self) -> tuple[Partition, ...]:
        return self._show(["scontrol", "--all", "--oneliner", "show", "partition"], parse_partition)

    def reservations(self) -> tuple[Reservation, ...]:
        return self._show(["scontrol", "--all", "--oneliner", "show", "reservation"], parse_reservation)

    def limits(self) -> tuple[Limited, ...]:
        return parse_limits(self._ask(["scontrol", "--oneliner", "show", "assoc_mgr", "flags=assoc,qos"]))

    def peak_memory_mib(self, job_id: int) -> int | None:
        argv = ["sacct", "--parsable2", "--noheader", "--units=K", f"--jobs={job_id:d}", "--format=MaxRSS"]
        steps = [line for line in self._ask(argv).splitlines() if line]
        try:
            return max(map(memory_mib, steps), default=None)
        except (KeyError, ValueError) as fault:
            raise self._malformed(argv, repr(fault)) from fault

    # Nodes

    def create_slots(self, slots: Slots) -> None:
        slots.arguments()  # refuses what cannot be, whatever is there
        # Later releases than 22.05 refuse all of them where one is there, and have forgotten that one (seen with 24.11.5).
        if new := slots.without({node.name for node in self.nodes()}):
            self._ask(["scontrol", "create", *new.arguments()])
        # scontrol of 22.05 says nothing of those that found no room.
        try:
            self.nodes(slots.names)
        except NotFound as missing:
            raise Refused(
                f"not all slots were made: {missing.words}",
                words=missing.words,
                where=missing.where,
                remedy="raise MaxNodeCount in slurm.conf and restart slurmctld, or ask for fewer",
            ) from missing

    def to_future(self, nodes: str) -> None:
        self._update(nodes, "FUTURE")

    def power_down(self, nodes: str) -> None:
        self._update(nodes, "POWER_DOWN")

    def delete_nodes(self, nodes: str) -> None:
        self._ask(["scontrol", "delete", f"NodeName={node_names(nodes)}"])

    def set_features(self, nodes: str, features: Collection[str]) -> None:
        written = one_line(",".join(features), "the features")
        # Those that are active follow only where no plugin changes them at a boot.
        self._ask(
            [
                "scontrol",
                "update",
                f"NodeName={node_names(nodes)}",
                f"AvailableFeatures={written}",
                f"ActiveFeatures={written}",
            ]
        )

    def drain(self, nodes: str, reason: str) -> None:
        self._update(nodes, "DRAIN", f"Reason={one_line(reason, 'the reason')}")

    def undrain(self, nodes: str) -> None:
        self._update(nodes, "UNDRAIN")

    def resume(self, nodes: str) -> None:
        self._update(nodes, "RESUME")

    def down(self, nodes: str, reason: str) -> None:
        self._update(nodes, "DOWN", f"Reason={one_line(reason, 'the reason')}")

    def reconfigure(self) -> None:
        self._ask(["scontrol", "reconfigure"])

    def takeover(self) -> None:
        self._ask(["scontrol", "takeover"])

    # Partitions

    def change_partition(
        self,
        verb: Literal["create", "update", "delete"],
        name: str,
        settings: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Make, change or take away a partition; ``settings`` are keys and values of its line in slurm.conf.

        Raises:
            Refused: Slurm does not take them, or there are jobs in one that is to go.
        """
        pairs = [one_line(f"{key}={value}", key) for key, value in settings]
        self._ask(["scontrol", verb, f"PartitionName={one_line(name, 'the name')}", *pairs])

    # Jobs

    def submit(self, request: JobRequest) -> Submitted:
        argv = ["sbatch", "--parsable", *request.arguments()]
        # In the transport's environment only, as a job inherits it.
        completed = self._transport.run(argv, stdin=request.script, timeout_s=self._timeout_s)
        # A submit plugin may write what looks like an error for a job that was taken: the number decides.
        found = _SUBMITTED.fullmatch(completed.stdout.strip())
        if completed.exit_code == 0 and found:
            return Submitted(int(found[1]), completed.stderr.strip())
        judge(argv, completed, self._transport.where)
        raise self._malformed(argv, "it has no job id")

    def cancel(self, job_id: int, *, array_id: str = "") -> None:
        # Without --verbose it says nothing of a job that is not there.
        argv = ["scancel", "--verbose", array_id or f"{job_id:d}"]
        completed = self._run(argv)
        if completed.exit_code == 0 and "already completing or completed" in completed.stderr:
            return
        judge(argv, completed, self._transport.where)

    def release(self, job_id: int) -> None:
        try:
            self._ask(["scontrol", "release", f"{job_id:d}"])
        except Refused as refusal:
            # Of one that runs or has ended Slurm says that it cannot be.
            if isinstance(refusal, NotFound) or any(
                job.state is JobState.PENDING and not job.priority for job in self.job(job_id)
            ):
                raise

    def requeue(self, job_id: int, *, array_id: str = "") -> None:
        self._ask(["scontrol", "requeue", array_id or f"{job_id:d}"])

    def tell(self, job_id: int, message: str, *, array_id: str = "") -> None:
        said = one_line(message, "the message")
        mark = f"\x1e{secrets.token_urlsafe(9)}\x1e"
        answer = self._ask(
            [
                "squeue",
                "--local",
                "--states=all",
                f"--jobs={array_id or job_id}",
                f"--Format=JobID:{mark},admin_comment:{mark}",
            ]
        )
        fields = answer.split(mark)
        if len(fields) < 5 or fields[2].strip() != f"{job_id:d}":
            raise self._malformed(["squeue"], "the comment is missing")
        before = "" if fields[3] == "(null)" else fields[3]
        if said not in before:
            comment = f"{before}; {said}" if before else said
            self._ask(["scontrol", "update", f"JobId={array_id or job_id}", f"AdminComment={comment}"])
        try:
            # By its own number, also a task of an array: scontrol reads no further than the underscore here.
            self._ask(["scontrol", "notify", f"{job_id:d}", said])
        except Refused:
            # It does not run, or not in a way that has a standard error of Slurm's.
            return

    def _update(self, nodes: str, state: str, *more: str) -> None:
        self._ask(["scontrol", "update", f"NodeName={node_names(nodes)}", f"State={state}", *more])

    def _queue(self, selection: list[str]) -> tuple[Job, ...]:
        # Another one each time, so that nobody can give a job a name that holds it.
        mark = f"\x1e{secrets.token_urlsafe(9)}\x1e"
        argv = ["squeue", "--all", "--local", "--noconvert", f"--Format={squeue_format(mark)}", *selection]
        answer = self._ask(argv)
        try:
            return tuple(parse_queue(answer, mark))
        except (KeyError, ValueError) as fault:
            raise self._malformed(argv, str(fault)) from fault

    def _run(self, argv: Sequence[str]) -> Completed:
        return self._transport.run([*ENVIRONMENT, *argv], timeout_s=self._timeout_s)

    def _ask(self, argv: Sequence[str]) -> str:
        return judge(argv, self._run(argv), self._transport.where)

    def _show(self, argv: Sequence[str], parse: Callable[[str], _Record]) -> tuple[_Record, ...]:
        """Return the records that scontrol lists, one on a line.

        Raises:
            SlurmError: as `judge`; `Malformed` where a line is no record, or where there are no lines and scontrol does
                not say that there is nothing to list.
        """
        completed = self._run(argv)
        nothing = _NOTHING_TO_LIST.fullmatch(completed.stdout.strip())
        # What stands beside an answer that succeeded is a note, such as that munged was busy and was asked again.
        is_whole = completed.exit_code == 0 or (completed.exit_code == 1 and not completed.stderr.strip())
        if nothing and is_whole:
            return ()
        answer = judge(argv, completed, self._transport.where)
        lines = answer.splitlines()
        if not lines or not answer.endswith("\n"):
            raise self._malformed(argv, "it is empty, or cut off")
        try:
            return tuple(parse(line) for line in lines if line)
        except (KeyError, ValueError) as fault:
            raise self._malformed(argv, repr(fault)) from fault

    def _malformed(self, argv: Sequence[str], why: str) -> Malformed:
        return Malformed(
            f"{argv[0]}'s answer is not what was asked for: {why}",
            where=f"{argv[0]} {self._transport.where}",
            remedy="ask again; if it stays, this version of Slurm writes it in another form",
        )
