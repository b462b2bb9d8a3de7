"""What jobs ask for, as real Slurm shows it (`record`)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scaling.decide.cluster_states import job
from tests.scaling.decide.demand.record import FOLDER, MARK, REQUESTS
from tidepool.clients.slurm.job import Job, parse_queue
from tidepool.scaling.decide.demand.fit import Ask, ask_of

RELEASES = sorted(file.name for file in FOLDER.iterdir())

PLAIN: dict[str, Any] = {
    "partitions": ("all",),
    "nodes": 1,
    "spreads": False,
    "tasks": 1,
    "cpus_per_task": 1,
    "threads_per_core": 0,
    "tasks_per_node": 0,
    "min_cpus_per_node": 1,
    "memory_per_node_mib": 0,
    "memory_per_cpu_mib": 0,
    "gres_per_job": (),
    "gres_per_node": (),
    "gres_per_socket": (),
    "gres_per_task": (),
    "tmp_disk_mib": 0,
    "features": "",
    "sole": "",
    "contiguous": False,
    "required_nodes": "",
    "reservation": "",
    "time_limit_s": None,
    "account": "",
}
#: By what sbatch was told: in what it differs from a job of one task.
ASKED: dict[str, dict[str, Any]] = {
    "-n 1": {},
    "-n 14": {"tasks": 14, "spreads": True},
    "-n 14 --mem-per-cpu=100": {"tasks": 14, "spreads": True, "memory_per_cpu_mib": 100},
    "-n 4 --mem-per-cpu=800": {"tasks": 4, "spreads": True, "memory_per_cpu_mib": 800},
    "-N 2 -n 5 --mem=200": {"nodes": 2, "tasks": 5, "memory_per_node_mib": 200},
    "-N 2-4": {"nodes": 2, "tasks": 2, "spreads": True},
    "-N 2 --ntasks-per-node=2 -c 2": {
        "nodes": 2,
        "tasks": 4,
        "cpus_per_task": 2,
        "tasks_per_node": 2,
        "min_cpus_per_node": 4,
    },
    "-n 6 --ntasks-per-node=2": {
        "tasks": 6,
        "spreads": True,
        "tasks_per_node": 2,
        "min_cpus_per_node": 2,
    },
    "-n 3 -c 3": {"tasks": 3, "spreads": True, "cpus_per_task": 3, "min_cpus_per_node": 3},
    "-c 2 --mem-per-cpu=100": {"cpus_per_task": 2, "min_cpus_per_node": 2, "memory_per_cpu_mib": 100},
    "--exclusive -n 1": {"sole": "job"},
    "--exclusive=user -n 1": {"sole": "user:root"},
    "--threads-per-core=1 -n 3": {"tasks": 3, "threads_per_core": 1},
    "--contiguous -N 3": {"nodes": 3, "tasks": 3, "contiguous": True},
    "-w a-[1-2] -N 3": {"nodes": 3, "tasks": 3, "required_nodes": "a-[1-2]"},
    "-C a&b": {"features": "a&b"},
    "-C [a*2&b*3] -N 5": {"nodes": 5, "tasks": 5, "features": "[a*2&b*3]"},
    "-t 10 --mem=0": {"time_limit_s": 600},
    "--gpus=3": {"gres_per_job": (("gpu", "", 3),)},
    "--gpus=a100:3": {"gres_per_job": (("gpu", "a100", 3),), "spreads": True},
    "--gpus-per-node=a100:2 -N 2": {"nodes": 2, "tasks": 2, "gres_per_node": (("gpu", "a100", 2),)},
    "--gres=gpu:a100:1,lic:2": {"gres_per_node": (("gpu", "a100", 1), ("lic", "", 2))},
    "--gpus-per-task=1 -n 5": {"tasks": 5, "spreads": True, "gres_per_task": (("gpu", "", 1),)},
    "--gpus-per-socket=1 --sockets-per-node=2": {"gres_per_socket": (("gpu", "", 1),)},
    "--gpus=2 --mem-per-gpu=300": {"gres_per_job": (("gpu", "", 2),), "memory_per_node_mib": 600},
    "--gpus=4 --cpus-per-gpu=2": {"gres_per_job": (("gpu", "", 4),), "cpus_per_task": 8},
    "-a 0-9:2,12%4": {},
    "-p all,hidden": {"partitions": ("all", "hidden")},
}


def recorded(release: str) -> dict[str, Job]:
    return {job.name: job for job in parse_queue((FOLDER / release).read_text(), MARK)}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("request_", ASKED)
def test_as_sbatch_was_told(release: str, request_: str) -> None:
    assert ask_of(recorded(release)[request_]) == Ask(**PLAIN | ASKED[request_])


@pytest.mark.parametrize("release", RELEASES)
def test_all_that_was_recorded_can_be_read(release: str) -> None:
    jobs = recorded(release)
    assert {"het", *(name for name in REQUESTS if "singleton" not in name)} <= jobs.keys()
    for each in jobs.values():
        ask_of(each)


def test_whose_job_it_is_matters_where_accounts_have_a_cap() -> None:
    assert ask_of(job(1), account=True).account == "physics"
    assert ask_of(job(1)).account == ""


def test_a_count_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="1K"):
        ask_of(job(1, tres_per_node={"gres/lic": "1K"}))
