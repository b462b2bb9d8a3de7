"""Jobs hold to what they asked for: memory, devices; what they used is told."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import versions
from tests.whole.cluster import SPEC, Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState

pytestmark = [pytest.mark.slow, pytest.mark.runs("local", versions.slurm())]


@pytest.fixture(scope="module")
def confined(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    controller = {**SPEC["controller"], "accounting": {"shape": {"cpus": 1, "memory": "512MiB"}}}
    often = {"JobAcctGatherFrequency": "task=1"}
    gpus = [{"name": "gpu", "count": 2, "files": "/dev/nvidia[0-1]"}]
    fleet = {**SPEC["fleets"][0], "shape": {**SPEC["fleets"][0]["shape"], "gres": gpus}}
    changes = {"controller": controller, "slurm_conf": often, "fleets": [fleet]}
    with a_cluster(tmp_path_factory.mktemp("cluster"), images, **changes) as it:
        yield it


def holding(mib: int, seconds: int) -> str:
    """A program that holds so much memory."""
    return f"exec python3 -c 'import time; x = bytearray({mib} << 20); time.sleep({seconds})'"


def sacct(cluster: Cluster, job: int, field: str) -> str:
    done = cluster.on("ctl", "sacct", "-P", "-n", "-j", f"{job}.batch", "-o", field)
    return done.stdout.strip()


def test_one_that_takes_too_much_memory_is_killed_alone_and_told_so(confined: Cluster) -> None:
    good = confined.submit(holding(40, 8), memory_mib=80, more=("--nodelist=cpu-1",), output="/dev/null")
    bad = confined.submit(holding(120, 60), memory_mib=80, more=("--nodelist=cpu-1",), output="bad.out")
    assert confined.until_job(bad, JobState.OUT_OF_MEMORY).nodelist == "cpu-1"
    assert confined.until_job(good, JobState.COMPLETED).nodelist == "cpu-1"
    assert "oom" in confined.on("login-1", "cat", "/home/researcher/bad.out").stdout.lower()
    used = until(lambda: sacct(confined, good, "MaxRSS") or None, "what it used is in the database")
    assert 40 * 1024 <= int(used.removesuffix("K")) < 80 * 1024
    assert sacct(confined, good, "TotalCPU") > "00:00.000"
    assert sacct(confined, bad, "State") == "OUT_OF_MEMORY"
    why = json.loads(confined.tidepool("why", "job", str(bad), "--json"))["killed"]
    assert (why["askedMib"], why["peakMib"] is None) == (80, False)


#: What comes of each device: it is denied, or no driver answers, for it is a stand-in. And what Slurm says of them.
TRY_DEVICES = """\
python3 - <<END
import errno, os
for n in (0, 1):
    try:
        os.open(f"/dev/nvidia{n}", os.O_RDWR)
    except OSError as error:
        print(errno.errorcode[error.errno])
END
test -w /dev/null && echo "gpus=$SLURM_JOB_GPUS cuda=$CUDA_VISIBLE_DEVICES"
"""
#: Until the other one of two has its device as well.
MEET = "touch met-$SLURM_JOB_ID; until test $(ls met-* | wc -l) = 2; do sleep 0.1; done"


def test_a_job_has_the_devices_that_it_was_given_and_no_other(confined: Cluster) -> None:
    on = ("--nodelist=cpu-1",)
    two = [
        confined.submit(
            f"{TRY_DEVICES}{MEET}", memory_mib=80, gres="gpu:1", more=on, output=f"gpu-{number}.out"
        )
        for number in (0, 1)
    ]
    for job in two:
        confined.until_job(job, JobState.COMPLETED)
    none = confined.submit(TRY_DEVICES, memory_mib=80, more=on, output="gpu-none.out")
    confined.until_job(none, JobState.COMPLETED)
    said = {
        name: confined.on("login-1", "cat", f"/home/researcher/gpu-{name}.out").stdout.split()
        for name in ("0", "1", "none")
    }
    assert sorted((said["0"], said["1"])) == [
        # Of those that it can open, it is the first one.
        ["ENXIO", "EPERM", "gpus=0", "cuda=0"],
        ["EPERM", "ENXIO", "gpus=1", "cuda=0"],
    ]
    assert said["none"] == ["EPERM", "EPERM", "gpus=", "cuda="]


#: Prints where each of four processes may run, which all try to run anywhere; and ends when it is told to.
TRY_PROCESSORS = """\
for each in 1 2 3 4; do
    python3 -c 'import os; os.sched_setaffinity(0, range(os.cpu_count())); print(*os.sched_getaffinity(0))' &
done
wait
env | grep HWLOC
until test -e enough; do sleep 0.2; done
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor, which all have")
def test_a_job_keeps_to_its_processors_and_nodes_have_others_first(confined: Cluster) -> None:
    def processors(name: str, node: str, cpus: int = 1) -> set[str]:
        """Of a job that runs from now on."""
        asks = {"memory_mib": 40, "cpus_per_task": cpus, "more": (f"--nodelist={node}",)}
        confined.submit(TRY_PROCESSORS, output=f"{name}.out", **asks)

        def said() -> list[str] | None:
            lines = confined.on("login-1", "cat", f"/home/researcher/{name}.out").stdout.splitlines()
            return lines if len(lines) == 4 else None

        lines = until(said, f"all four processes of {name} ran", 60)
        assert len(set(lines)) == 1
        return set(lines[0].split())

    first, second = processors("first", "cpu-1"), processors("second", "cpu-1")
    assert len(first) == len(second) == 1
    assert first != second
    # The first job of a node is not on the same processor as that of another one.
    both = processors("other", "cpu-2") | first
    assert len(both) == 2
    confined.on("login-1", "touch", "/home/researcher/enough")
    assert len(processors("wide", "cpu-2", cpus=2)) == 2
