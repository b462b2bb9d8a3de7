"""`TrialOutcome`: times by one clock as processes wrote them, beside those that the scheduler tells of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """One task of a job in one attempt, as it wrote itself: times are seconds since the trial's beginning.

    Attributes:
        rank: which task, counted from 0.
        attempt: counted from 1; a job that was requeued has more.
        machine: the node's name.
        cpus: processors that it might run on.
        started_s: its first instruction.
        ended_s: its last; None where it was killed.
        exit_code: None where it was killed.
        figures: what a kernel measured: names with their unit, ``bandwidth_bytes_per_second``.
    """

    rank: int
    attempt: int
    machine: str
    cpus: tuple[int, ...]
    started_s: float
    ended_s: float | None
    exit_code: int | None
    figures: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """A job, and all that is known of it.

    Attributes:
        submitted_s: the moment before it was handed to the scheduler.
        accepted_s: the moment after; None where the scheduler refused it.
        processes: as they wrote themselves, in the order of their starts.
        state: the scheduler's last word, in its own terms: ``COMPLETED``, ``Failed``.
        succeeded: whether the scheduler says that it did.
        told: the scheduler's own times, by its own names: ``StartTime``, ``status.startTime``; seconds since the trial's beginning.
    """

    name: str
    submitted_s: float
    accepted_s: float | None
    processes: tuple[ProcessRecord, ...]
    state: str
    succeeded: bool
    told: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class UsageSample:
    """CPU time and memory that programs of the scheduler have used by a moment, all of a part summed.

    Attributes:
        part: ``slurmctld``, ``kube-apiserver``, ``slurmd`` (of all machines).
        cpu_s: CPU time since it began.
        memory_bytes: resident.
    """

    at_s: float
    part: str
    cpu_s: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class HostSample:
    """The machine that all runs on, at a moment: what disturbs a measurement is in it.

    Attributes:
        stolen_s: time that the hypervisor took, of all processors, since the boot.
        busy_s: time of all processors since the boot.
        other_s: CPU time of what is none of the laboratory's, since the boot.
        frequency_hz: mean of all processors; None where the kernel does not say it.
        throttled: how often the processors were, since the boot; None likewise.
        energy_j: of the package, since an arbitrary moment; None where there is no RAPL.
    """

    at_s: float
    stolen_s: float
    busy_s: float
    other_s: float
    frequency_hz: float | None = None
    throttled: int | None = None
    energy_j: float | None = None


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """A trial that came to its end.

    Attributes:
        began: UTC, ISO 8601.
        lasted_s: until the last job had ended and nothing was left.
        requests: how many the scheduler's API was sent, where that is counted, by what they were.
        others: names of the programs beside the laboratory that used most, with their processor time in seconds.
        environment: kernel, versions, digests, settings: all that figures may depend on.
        disturbed: why it is not to be counted, where the host stole time or throttled: it is then repeated.
    """

    scheduler: str
    workload: str
    repeat: int
    began: str
    lasted_s: float
    jobs: tuple[JobOutcome, ...]
    usage: tuple[UsageSample, ...]
    host: tuple[HostSample, ...]
    requests: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    others: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    disturbed: str = ""
