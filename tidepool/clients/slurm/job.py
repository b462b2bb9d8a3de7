"""Jobs, as squeue lists them: what waits, what it asks for, and what runs where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from itertools import repeat
from typing import Any, Final, NamedTuple

from tidepool.clients.slurm.quantities import array_size, duration_s, memory_mib, moment, text, tres


class JobState(StrEnum):
    """A job's state; where a flag such as COMPLETING stands beside the base state, Slurm shows the flag."""

    BOOT_FAIL = "BOOT_FAIL"
    CANCELLED = "CANCELLED"
    COMPLETED = "COMPLETED"
    COMPLETING = "COMPLETING"
    CONFIGURING = "CONFIGURING"
    DEADLINE = "DEADLINE"
    EXPEDITING = "EXPEDITING"
    FAILED = "FAILED"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PENDING = "PENDING"
    PREEMPTED = "PREEMPTED"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    RESIZING = "RESIZING"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    REVOKED = "REVOKED"
    RUNNING = "RUNNING"
    SIGNALING = "SIGNALING"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    STAGE_OUT = "STAGE_OUT"
    STOPPED = "STOPPED"
    SUSPENDED = "SUSPENDED"
    TIMEOUT = "TIMEOUT"

    @property
    def has_ended(self) -> bool:
        """It will not run again by itself."""
        return self in _ENDED


_ENDED: Final = frozenset(
    {
        JobState.BOOT_FAIL,
        JobState.CANCELLED,
        JobState.COMPLETED,
        JobState.DEADLINE,
        JobState.FAILED,
        JobState.NODE_FAIL,
        JobState.OUT_OF_MEMORY,
        JobState.PREEMPTED,
        JobState.REVOKED,
        JobState.TIMEOUT,
    }
)


_NO_TRES: Final = tres("")


class Job(NamedTuple):
    """One record of the queue: a job, or all tasks of an array that have not begun. A tuple, for there are many.

    ``array_tasks`` are the indices that the record stands for (``0-9:2,12%4``), empty without an array.
    ``nodes`` and ``cpus`` are the least that a waiting job asks for, or what a running one has, for one task; where
    the number of nodes is left to slurmctld, ``nodes`` is what that thinks of, and ``tres`` has the least.
    ``min_memory_mib`` is per node or per CPU: squeue does not say which, so `memory_per_node_mib` works it out.
    ``tres`` is all that it asks for (``cpu``, ``mem``, ``node``, ``gres/gpu``); ``tres_per_*`` are its own words.
    ``oversubscribe`` is ``NO`` for exclusive nodes, ``USER``, ``MCS``, ``YES`` or ``OK``.
    ``reason`` is Slurm's (``Resources``, ``Priority``, ``JobHeldAdmin``, ``ReqNodeNotAvail, ...``).
    ``begin_time`` is when it may begin at the earliest, ``start_time`` when it began or is expected to.
    ``cpus_per_tres`` and ``memory_per_tres`` are for each gres (``gres/gpu``); ``threads_per_core`` is how many of a
    core's threads it uses, where it says so. ``request`` is all that it asks for as squeue wrote it, by which jobs that
    ask for the same are found quickly; empty where it was not squeue.
    """

    job_id: int
    array_job_id: int
    array_tasks: str
    het_job_id: int | None
    priority: int
    time_limit_s: int | None
    submit_time: datetime | None
    begin_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    dependency: str
    nodelist: str
    state: JobState
    reason: str
    partitions: tuple[str, ...]
    user: str
    qos: str
    reservation: str
    batch: bool
    restarts: int
    nodes: int
    max_nodes: int | None
    cpus: int
    min_cpus_per_node: int
    tasks: int
    cpus_per_task: int
    min_memory_mib: int
    tmp_disk_mib: int
    features: str
    tres: Mapping[str, str]
    tres_per_job: Mapping[str, str]
    tres_per_node: Mapping[str, str]
    tres_per_socket: Mapping[str, str]
    tres_per_task: Mapping[str, str]
    licenses: Mapping[str, str]
    oversubscribe: str
    contiguous: bool
    required_nodes: str
    account: str
    name: str
    cpus_per_tres: Mapping[str, str] = _NO_TRES
    memory_per_tres: Mapping[str, str] = _NO_TRES
    threads_per_core: int | None = None
    request: str = ""

    @property
    def size(self) -> int:
        """Count the tasks of an array that the record stands for; 1 without an array."""
        return array_size(self.array_tasks)

    @property
    def array_id(self) -> str:
        """Return people's name for the one task of an array that the record stands for (``17_3``); empty without an array."""
        return f"{self.array_job_id}_{self.array_tasks}" if self.array_tasks.isdecimal() else ""

    @property
    def memory_mib(self) -> int | None:
        """Return the memory that one task of it asks for on all its nodes together; None where Slurm does not count memory."""
        return memory_mib(self.tres["mem"]) if "mem" in self.tres else None

    @property
    def memory_is_per_cpu(self) -> bool:
        """Return whether ``min_memory_mib`` is for each CPU: then, and only then, is the sum over the CPUs the whole."""
        whole = self.memory_mib
        return (
            whole is not None
            and self.min_memory_mib > 0
            and whole == self.min_memory_mib * self.cpus
            and whole != self.min_memory_mib * self.nodes
        )

    @property
    def memory_per_node_mib(self) -> int:
        """Return the memory that a node must have for it at least, its CPUs spread evenly.

        0 where it asks for no amount: then it takes all memory of whatever nodes it gets, where Slurm counts memory.
        """
        if self.memory_is_per_cpu:
            return self.min_memory_mib * max(self.min_cpus_per_node, -(-self.cpus // max(self.nodes, 1)))
        return self.min_memory_mib

    @property
    def gpus(self) -> int:
        """Count the GPUs that one task of it asks for on all its nodes together, of any type.

        ``tres`` counts them only where slurmdbd does (AccountingStorageTRES); else its own words are multiplied.
        """
        counted = _gpus(self.tres)
        return counted or max(
            _gpus(self.tres_per_job),
            _gpus(self.tres_per_node) * self.nodes,
            _gpus(self.tres_per_task) * self.tasks,
        )


def _gpus(counts: Mapping[str, str]) -> int:
    if "gres/gpu" in counts:
        return int(counts["gres/gpu"])
    return sum(int(count) for name, count in counts.items() if name.startswith("gres/gpu:"))


def _optional(written: str) -> int | None:
    return int(written) if text(written) and written != "0" else None


def _names(written: str) -> tuple[str, ...]:
    return tuple(text(written).split(","))


def _contiguous(written: str) -> bool:
    return written not in {"0", "NO", "no"}


def _threads(written: str) -> int | None:
    return int(written) if written.isdigit() else None


def _count(written: str) -> int:
    """A count, which Slurm shortens where it is large (``10K``), or does not set."""
    if written.isdigit():
        return int(written)
    return memory_mib(written) * 1024 if text(written) else 0


_Column = tuple[str, Callable[[str], Any]]

#: squeue's names of the fields, each with what reads it, in the order of `Job`. Nobody outside of Slurm chooses
#: what is written in these. First, what is another one for each job.
OWN_COLUMNS: Final[tuple[_Column, ...]] = (
    ("JobID", int),
    ("ArrayJobID", int),
    ("ArrayTaskID", text),
    ("HetJobID", _optional),
    ("PriorityLong", int),
    ("TimeLimit", duration_s),
    ("SubmitTime", moment),
    ("EligibleTime", moment),
    ("StartTime", moment),
    ("EndTime", moment),
    ("Dependency", text),
    ("NodeList", text),
)
#: Where it stands, and what it asks for: each of the two is the same for many jobs, and read once for all of them.
STANDING_COLUMNS: Final[tuple[_Column, ...]] = (
    ("State", JobState),
    ("Reason", text),
    ("Partition", _names),
    ("UserName", text),
    ("QOS", text),
    ("Reservation", text),
    ("BatchFlag", _contiguous),
    ("RestartCnt", _count),
)
REQUEST_COLUMNS: Final[tuple[_Column, ...]] = (
    ("NumNodes", _count),
    ("MaxNodes", _optional),
    ("NumCPUs", _count),
    ("MinCpus", _count),
    ("NumTasks", _count),
    ("cpus-per-task", _count),
    ("MinMemory", memory_mib),
    ("MinTmpDisk", memory_mib),
    ("Feature", text),
    ("tres-alloc", tres),
    ("tres-per-job", tres),
    ("tres-per-node", tres),
    ("tres-per-socket", tres),
    ("tres-per-task", tres),
    ("Licenses", tres),
    ("OverSubscribe", text),
    ("Contiguous", _contiguous),
    ("ReqNodes", text),
    ("cpus-per-tres", tres),
    ("mem-per-tres", tres),
    ("threads", _threads),
)
#: Those that users choose freely: anything may stand in them. In `Job` they come before the last three of a request.
FREE_COLUMNS: Final = ("Account", "Name")
_LATER: Final = 3

_MOMENTS: Final = tuple(place for place, (_, read) in enumerate(OWN_COLUMNS) if read is moment)
_FIELD_END: Final = "\x1f"
_PART_END: Final = "\x1c"
_WIDTH: Final = len(OWN_COLUMNS) + 2


class _Memo(dict[str, Any]):
    """Values that a reader made of texts; most stand there thousands of times."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read = read

    def __missing__(self, written: str) -> Any:
        read = self[written] = self._read(written)
        return read


def _reader(columns: tuple[_Column, ...]) -> Callable[[str], tuple[Any, ...]]:
    """Return a reader of several fields that are written as one."""
    memos = [_Memo(read) for _, read in columns]

    def read(written: str) -> tuple[Any, ...]:
        fields = written.split(_PART_END)
        return tuple(memo[field] for memo, field in zip(memos, fields, strict=True))

    return read


def squeue_format(mark: str) -> str:
    """The ``--Format`` for `parse_queue`.

    ``mark`` ends what users chose. It has to be one that they cannot guess, so that no job's name can pass for
    other jobs; and must not begin with what squeue would take for a width.
    """
    ends = [(name, _FIELD_END) for name, _ in OWN_COLUMNS]
    for columns, end in ((STANDING_COLUMNS, _FIELD_END), (REQUEST_COLUMNS, mark)):
        *others, (last, _) = columns
        ends += [(name, _PART_END) for name, _ in others] + [(last, end)]
    ends += [(name, mark) for name in FREE_COLUMNS]
    return ",".join(f"{name}:{end}" for name, end in ends)


def parse_queue(output: str, mark: str) -> list[Job]:
    """Read what squeue wrote in `squeue_format`, with the header that proves that Slurm answered.

    Raises:
        ValueError: it is not that: empty, cut off, or a field that cannot be read.
    """
    heads, accounts, names, end = _split_records(output, mark)
    if end != "\n":
        raise ValueError("the end is missing")
    fields = _FIELD_END.join(heads).split(_FIELD_END)
    if len(fields) != _WIDTH * len(heads) or fields[0] != "JOBID":
        raise ValueError("the header is missing, or fields are")
    del heads, fields[:_WIDTH]
    if not all(field.startswith("\n") for field in fields[::_WIDTH]):
        raise ValueError("fields are out of place")
    moments = _Memo(moment)
    # No two jobs have the same times: they are read all together, which is quicker.
    whole = {written for place in _MOMENTS for written in fields[place::_WIDTH] if written.isdecimal()}
    moments.update(zip(whole, map(datetime.fromtimestamp, map(int, whole), repeat(UTC)), strict=True))
    own: list[Iterable[Any]] = []
    for place, (_, read) in enumerate(OWN_COLUMNS):
        column = fields[place::_WIDTH]
        if read is int:
            own.append(map(int, column))
        else:
            own.append(map((moments if read is moment else _Memo(read)).__getitem__, column))
    standing = map(_Memo(_reader(STANDING_COLUMNS)).__getitem__, fields[_WIDTH - 2 :: _WIDTH])
    read_request = _reader(REQUEST_COLUMNS)
    in_two = _Memo(lambda written: ((asks := read_request(written))[:-_LATER], (*asks[-_LATER:], written)))
    request = map(in_two.__getitem__, fields[_WIDTH - 1 :: _WIDTH])
    free = [["" if value == "(null)" else value for value in column[1:]] for column in (accounts, names)]
    rows = (
        (*mine, *stands, *asks, account, name, *later)
        for mine, stands, (asks, later), account, name in zip(
            zip(*own, strict=True), standing, request, *free, strict=True
        )
    )
    return list(map(tuple.__new__, repeat(Job), rows))


def _split_records(output: str, mark: str) -> tuple[list[str], list[str], list[str], str]:
    """The fields that Slurm chose of each record, joined; its accounts; its names; and what stands at the end."""
    pieces = output.split(mark)
    end = pieces.pop()
    if not pieces or len(pieces) % 3:
        raise ValueError("it is empty, or cut off")
    return pieces[0::3], pieces[1::3], pieces[2::3], end
