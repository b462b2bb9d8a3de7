"""Records what squeue shows of jobs that ask for nodes in many ways: ``python -m tests.scaling.decide.demand.record``, as root.

No node is up: all jobs wait for slots, as they do for a scaler. Beside each job, its name says how it was submitted.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.clients.slurm.real import CONF, RealSlurm
from tidepool.clients.slurm import Here, Slots, Slurm
from tidepool.clients.slurm.job import squeue_format

FOLDER = Path(__file__).parent / "recorded"
MARK = "\x1eMARK\x1e"

#: What sbatch is told.
REQUESTS = (
    "-n 1",
    "-n 14",
    "-n 14 --mem-per-cpu=100",
    "-n 4 --mem-per-cpu=800",
    "-N 2 -n 5 --mem=200",
    "-N 2-4",
    "-N 2 --ntasks-per-node=2 -c 2",
    "-n 6 --ntasks-per-node=2",
    "-n 3 -c 3",
    "-c 2 --mem-per-cpu=100",
    "-N 2 --mem-per-cpu=100 -c 2 --ntasks-per-node=2",
    "--exclusive -n 1",
    "--exclusive=user -n 1",
    "--threads-per-core=1 -n 3",
    "--contiguous -N 3",
    "-w a-1",
    "-w a-[1-2] -N 3",
    "-C a&b",
    "-C [a|b] -N 2",
    "-C [a*2&b*3] -N 5",
    "-C a*2 -N 3",
    "-t 10 --mem=0",
    "--gpus=3",
    "--gpus=a100:3",
    "--gpus-per-node=a100:2 -N 2",
    "--gres=gpu:a100:1,lic:2",
    "--gres=gpu",
    "--gpus-per-task=1 -n 5",
    "--gpus-per-socket=1 --sockets-per-node=2",
    "--gpus=2 --mem-per-gpu=300",
    "--gpus=4 --cpus-per-gpu=2",
    "-a 0-9:2,12%4",
    "-a 1-3 -H",
    "--begin=now+1hour",
    "-L matlab:2",
    "-d singleton",
    "-d singleton -t 1",
    "-p all,hidden",
    "-p hidden",
)


def main() -> None:
    """Declare slots, submit, and keep what squeue writes."""
    with tempfile.TemporaryDirectory() as folder:
        real = RealSlurm(Path(folder), CONF.replace("GresTypes=gpu", "GresTypes=gpu,lic"))
        try:
            with Slurm(Here(real.environment)) as slurm:
                slurm.create_slots(Slots("a-[1-3]", "127.90.1.[1-3]", 4, 1000, ("a", "x")))
                slurm.create_slots(Slots("b-[1-3]", "127.90.2.[1-3]", 4, 1000, ("a", "b", "x")))
                slurm.create_slots(Slots("g-[1-3]", "127.90.3.[1-3]", 8, 2000, ("g",), "gpu:a100:2,lic:3"))
                slurm.create_slots(Slots("h-[1-3]", "127.90.4.[1-3]", 8, 2000, ("g",), "gpu:v100:4"))
                for request in REQUESTS:
                    _submit(real, request)
                _keep(real, slurm)
        finally:
            real.close()


def _submit(real: RealSlurm, request: str) -> None:
    # Of jobs of one name, one runs at a time.
    name = "-d singleton" if "singleton" in request else request
    argv = ["sbatch", "--output=/dev/null", f"--job-name={name}", *request.split(), "--wrap=sleep 300"]
    completed = real.command(argv)
    assert completed.returncode == 0, (request, completed.stderr)


def _keep(real: RealSlurm, slurm: Slurm) -> None:
    script = "--wrap=sleep 300"
    het = ["sbatch", "--job-name=het", "--output=/dev/null", "-n1", "--mem=10", ":", "-n2", "--mem=10"]
    completed = real.command([*het, script])
    assert completed.returncode == 0, completed.stderr
    # Once it has looked at them all, slurmctld has thought of numbers of nodes and of reasons.
    for _ in range(200):
        if all(job.reason not in {"", "None"} for job in slurm.jobs()):
            break
    FOLDER.mkdir(exist_ok=True)
    environment = {"TZ": "UTC0", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
    argv = ["squeue", "--all", "--noconvert", f"--Format={squeue_format(MARK)}"]
    (FOLDER / slurm.version()).write_text(real.command(argv, environment).stdout)


if __name__ == "__main__":
    main()
