"""`misfits`: jobs that can never run on the machines of a laboratory, found before anything is made. Pure."""

from __future__ import annotations

from tidepool.lab.workload import Job, Workload


def misfits(workload: Workload, machines: int, cpus: int, memory_mib: int) -> tuple[str, ...]:
    """Return sentences about jobs, and deaths of machines, that can never be; none where all can.

    Tasks of a job run at the same time, so all of them have to find their places at once.

    Args:
        workload: what is to run.
        machines: how many there are, all alike.
        cpus: processors of each.
        memory_mib: memory of each that jobs can have.
    """
    shapes: dict[tuple[int, int, int], list[Job]] = {}
    for job in workload.jobs:
        shapes.setdefault((job.tasks, job.cpus_per_task, job.memory_mib), []).append(job)
    found = [
        f"workload {workload.name}: {_named(jobs)} {reason}"
        for (tasks, task_cpus, task_memory_mib), jobs in shapes.items()
        if (reason := _reason(tasks, task_cpus, task_memory_mib, machines, cpus, memory_mib))
    ]
    if missing := sorted({death.machine for death in workload.deaths if death.machine >= machines}):
        found.append(
            f"workload {workload.name}: machine {missing[0]} is to die, and there are {machines}, counted from 0; "
            f"let at most {machines} die (`machines`)"
        )
    return tuple(found)


def _reason(
    tasks: int, task_cpus: int, task_memory_mib: int, machines: int, cpus: int, memory_mib: int
) -> str:
    if task_cpus > cpus:
        return f"asks for {task_cpus} processors for each task, and a machine has {cpus}: lower `cpus_per_task`, or take larger machines"
    if task_memory_mib > memory_mib:
        return f"asks for {task_memory_mib} MiB for each task, and a machine has {memory_mib} MiB: lower `memory_mib`, or take larger machines"
    room = machines * min(cpus // task_cpus, memory_mib // task_memory_mib)
    if tasks > room:
        return (
            f"has {tasks} tasks of {task_cpus} processors and {task_memory_mib} MiB at once, and {machines} machines of {cpus} processors "
            f"and {memory_mib} MiB hold {room} of them: take fewer tasks, or more machines"
        )
    return ""


def _named(jobs: list[Job]) -> str:
    return f"the job {jobs[0].name}" if len(jobs) == 1 else f"{jobs[0].name}, as {_others(len(jobs) - 1)},"


def _others(number: int) -> str:
    return "1 other job" if number == 1 else f"{number} other jobs"
