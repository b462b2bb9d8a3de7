"""Records what the Slurm of this machine writes, for `test_recorded`: ``python -m tests.clients.slurm.record``, as root."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.clients.slurm.real import RealSlurm, eventually
from tests.clients.slurm.world import RealWorld, up, wait_for_job
from tidepool.clients.slurm import Here, JobRequest, JobState, Slurm
from tidepool.clients.slurm.job import squeue_format

FOLDER = Path(__file__).parent / "recorded"
MARK = "\x1eMARK\x1e"
LONG = "#!/bin/sh\nsleep 300\n"


def main() -> None:
    """Make nodes, jobs and a reservation of several kinds, and keep what each command writes of them."""
    with tempfile.TemporaryDirectory() as folder:
        real = RealSlurm(Path(folder))
        try:
            with Slurm(Here(real.environment)) as slurm:
                world = RealWorld(real, slurm, slurm)
                _make(world)
                _keep(real, FOLDER / slurm.version())
        finally:
            real.close()


def _make(world: RealWorld) -> None:
    slurm = world.slurm
    names = up(world, 2, features=("std", "avx2"))
    first, second = (names.replace("[1-2]", number) for number in "12")
    running = slurm.submit(JobRequest(LONG, name="runs", tasks=2, memory_mib=100, time_limit_s=3600)).job_id
    wait_for_job(world, running, JobState.RUNNING)
    slurm.drain(first, "being replaced: [new image]")
    slurm.down(second, "plug pulled")
    without = world.slots(1, gres="gpu:2")
    world.boot(without)
    eventually(lambda: slurm.nodes(without)[0], lambda node: node.reason is not None)
    world.slots(1, features=("gpu",), gres="gpu:2")
    slurm.submit(
        JobRequest(
            LONG,
            name="waits|, really",
            account="physics",
            array="0-999:3%7",
            gpus="2",
            memory_per_cpu_mib=50,
            tasks=2,
        )
    )
    world.reserve("upkeep", second)


def _keep(real: RealSlurm, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    environment = {"TZ": "UTC0", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
    for what in ("node", "partition", "reservation"):
        completed = real.command(["scontrol", "--all", "--future", "--oneliner", "show", what], environment)
        (folder / what).write_text(completed.stdout)
    completed = real.command(
        ["squeue", "--all", "--noconvert", f"--Format={squeue_format(MARK)}"], environment
    )
    (folder / "queue").write_text(completed.stdout)


if __name__ == "__main__":
    main()
