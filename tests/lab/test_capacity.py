"""Jobs that can never run are found: exactly those that no packing of tasks onto machines holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidepool.lab.capacity import misfits
from tidepool.lab.workload import Death, Job, Sleep, Workload


def workload(*jobs: Job, deaths: tuple[Death, ...] = ()) -> Workload:
    return Workload("w", "bag", 1, jobs, deaths)


def job(name: str = "a", tasks: int = 1, cpus: int = 1, memory_mib: int = 64) -> Job:
    return Job(name, 0.0, Sleep(1.0), tasks=tasks, cpus_per_task=cpus, memory_mib=memory_mib)


def test_each_reason_is_a_sentence_with_its_remedy() -> None:
    (cpus,) = misfits(workload(job(cpus=3)), machines=4, cpus=2, memory_mib=1024)
    assert cpus == (
        "workload w: the job a asks for 3 processors for each task, and a machine has 2: lower `cpus_per_task`, or take larger machines"
    )
    (memory,) = misfits(workload(job(memory_mib=2000)), machines=4, cpus=2, memory_mib=1024)
    assert "2000 MiB" in memory
    assert "1024 MiB" in memory
    (tasks,) = misfits(workload(job(tasks=9)), machines=4, cpus=2, memory_mib=1024)
    assert "9 tasks" in tasks
    assert "hold 8 of them" in tasks


def test_jobs_that_are_alike_are_told_once() -> None:
    found = misfits(
        workload(job("a", tasks=9), job("b", tasks=9), job("c", tasks=10)),
        machines=4,
        cpus=2,
        memory_mib=1024,
    )
    assert len(found) == 2
    assert "a, as 1 other job," in found[0]


def test_machines_that_are_to_die_have_to_be_there() -> None:
    assert misfits(workload(job(), deaths=(Death(1.0, 3, 1.0),)), machines=4, cpus=2, memory_mib=1024) == ()
    (found,) = misfits(workload(job(), deaths=(Death(1.0, 4, 1.0),)), machines=4, cpus=2, memory_mib=1024)
    assert "machine 4 is to die, and there are 4" in found


@given(
    tasks=st.integers(1, 12),
    task_cpus=st.integers(1, 5),
    task_memory_mib=st.integers(1, 5),
    machines=st.integers(1, 4),
    cpus=st.integers(1, 5),
    memory_mib=st.integers(1, 5),
)
def test_it_agrees_with_placing_tasks_one_by_one(
    tasks: int, task_cpus: int, task_memory_mib: int, machines: int, cpus: int, memory_mib: int
) -> None:
    free = [[cpus, memory_mib] for _ in range(machines)]
    placed = 0
    for _ in range(tasks):
        machine = next((m for m in free if m[0] >= task_cpus and m[1] >= task_memory_mib), None)
        if machine is not None:
            machine[0] -= task_cpus
            machine[1] -= task_memory_mib
            placed += 1
    found = misfits(
        workload(job(tasks=tasks, cpus=task_cpus, memory_mib=task_memory_mib)), machines, cpus, memory_mib
    )
    assert bool(found) == (placed < tasks)
