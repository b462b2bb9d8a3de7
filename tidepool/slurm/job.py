"""Jobs, as squeue lists them: what waits, what it asks for, and what runs where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from tidepool.slurm.quantities import array_size, duration_s, memory_mib, moment, text, tres


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


class Job(NamedTuple):
    """One record of the queue: a job, or all tasks of an array that have not begun. A tuple, for there are many.

    ``array_tasks`` are the indices that the record stands for (``0-9:2,12%4``), empty without an array.
    ``nodes`` and ``cpus`` are the least that a waiting job asks for, or what a running one has, for one task.
    ``min_memory_mib`` is per node or per CPU: squeue does not say which, so `memory_per_node_mib` works it out.
    ``tres`` is all that it asks for (``cpu``, ``mem``, ``node``, ``gres/gpu``); ``tres_per_*`` are its own words.
    ``oversubscribe`` is ``NO`` for exclusive nodes, ``USER``, ``MCS``, ``YES`` or ``OK``.
    ``reason`` is Slurm's (``Resources``, ``Priority``, ``JobHeldAdmin``, ``ReqNodeNotAvail, ...``).
    ``begin_time`` is when it may begin at the earliest, ``start_time`` when it began or is expected to.
    """

    job_id: int
    array_job_id: int
    array_tasks: str
    het_job_id: int | None
    state: JobState
    reason: str
    partitions: tuple[str, ...]
    user: str
    qos: str
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
    dependency: str
    reservation: str
    oversubscribe: str
    contiguous: bool
    priority: int
    time_limit_s: int | None
    submit_time: datetime | None
    begin_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    nodelist: str
    required_nodes: str
    batch: bool
    restarts: int
    account: str
    name: str

    @property
    def size(self) -> int:
        """How many tasks of an array the record stands for; 1 without an array."""
        return array_size(self.array_tasks)

    @property
    def memory_mib(self) -> int | None:
        """What one task of it asks for on all its nodes together; none where Slurm does not count memory."""
        return memory_mib(self.tres["mem"]) if "mem" in self.tres else None

    @property
    def memory_is_per_cpu(self) -> bool:
        """Whether ``min_memory_mib`` is for each CPU: then, and only then, is the sum over the CPUs the whole."""
        whole = self.memory_mib
        return (
            whole is not None
            and self.min_memory_mib > 0
            and whole == self.min_memory_mib * self.cpus
            and whole != self.min_memory_mib * self.nodes
        )

    @property
    def memory_per_node_mib(self) -> int:
        """What a node must have for it at least, its CPUs spread evenly.

        0 where it asks for no amount: then it takes all memory of whatever nodes it gets, where Slurm counts memory.
        """
        if self.memory_is_per_cpu:
            return self.min_memory_mib * max(self.min_cpus_per_node, -(-self.cpus // max(self.nodes, 1)))
        return self.min_memory_mib

    @property
    def gpus(self) -> int:
        """How many GPUs one task of it asks for on all its nodes together, of any type.

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


def _count(written: str) -> int:
    """A count, which Slurm shortens where it is large (``10K``), or does not set."""
    if written.isdigit():
        return int(written)
    return memory_mib(written) * 1024 if text(written) else 0


#: squeue's names of the fields, each with what reads it, in the order of `Job`. Nobody outside of Slurm chooses
#: what is written in these.
COLUMNS: Final[tuple[tuple[str, Callable[[str], Any]], ...]] = (
    ("JobID", int),
    ("ArrayJobID", int),
    ("ArrayTaskID", text),
    ("HetJobID", _optional),
    ("State", JobState),
    ("Reason", text),
    ("Partition", _names),
    ("UserName", text),
    ("QOS", text),
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
    ("Dependency", text),
    ("Reservation", text),
    ("OverSubscribe", text),
    ("Contiguous", _contiguous),
    ("PriorityLong", int),
    ("TimeLimit", duration_s),
    ("SubmitTime", moment),
    ("EligibleTime", moment),
    ("StartTime", moment),
    ("EndTime", moment),
    ("NodeList", text),
    ("ReqNodes", text),
    ("BatchFlag", _contiguous),
    ("RestartCnt", _count),
)
#: Those that users choose freely: anything may stand in them.
FREE_COLUMNS: Final = ("Account", "Name")

_FIELD_END: Final = "\x1f"


class _Memo(dict[str, Any]):
    """What a column's reader made of each text; most stand there thousands of times."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read = read

    def __missing__(self, written: str) -> Any:
        read = self[written] = self._read(written)
        return read


def squeue_format(mark: str) -> str:
    """The ``--Format`` for `parse_queue`.

    ``mark`` ends what users chose. It has to be one that they cannot guess, so that no job's name can pass for
    other jobs; and must not begin with what squeue would take for a width.
    """
    return ",".join(
        [f"{name}:{_FIELD_END}" for name, _ in COLUMNS[:-1]]
        + [f"{COLUMNS[-1][0]}:{mark}"]
        + [f"{name}:{mark}" for name in FREE_COLUMNS]
    )


def parse_queue(output: str, mark: str) -> list[Job]:
    """What squeue wrote in `squeue_format`, with the header that proves that Slurm answered.

    Raises:
        ValueError: it is not that: empty, cut off, or a field that cannot be read.
    """
    heads, accounts, names, end = _split_records(output, mark)
    if end != "\n":
        raise ValueError("the end is missing")
    fields = _FIELD_END.join(heads).split(_FIELD_END)
    width = len(COLUMNS)
    if len(fields) != width * len(heads) or fields[0] != "JOBID":
        raise ValueError("the header is missing, or fields are")
    del fields[:width]
    first = fields[::width]
    if not all(field.startswith("\n") for field in first):
        raise ValueError("fields are out of place")
    read = [
        list(map(_Memo(reader).__getitem__, fields[place::width]))
        for place, (_, reader) in enumerate(COLUMNS)
    ]
    free = [["" if value == "(null)" else value for value in column[1:]] for column in (accounts, names)]
    return list(map(Job._make, zip(*read, *free, strict=True)))


def _split_records(output: str, mark: str) -> tuple[list[str], list[str], list[str], str]:
    """The fields that Slurm chose of each record, joined; its accounts; its names; and what stands at the end."""
    pieces = output.split(mark)
    end = pieces.pop()
    if not pieces or len(pieces) % 3:
        raise ValueError("it is empty, or cut off")
    return pieces[0::3], pieces[1::3], pieces[2::3], end
