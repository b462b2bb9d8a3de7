"""How fast this machine makes machines, alone and with Slurm's daemons, and what they cost. Needs root.

    .venv/bin/python bench/machines.py --sizes 1,64 [--slurm] [--image ROOT]

With ``--slurm`` (packages slurmctld, slurmd, munge, or an image that has them): a controller, then nodes as FUTURE slots; until all are idle.
"""

from __future__ import annotations

import argparse
import base64
import os
import resource
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tidepool.cluster.boot import File, Folder, Mount, Service
from tidepool.infrastructures.local.kernel import (
    MachineSpec,
    NetworkSpec,
    create_machine,
    create_network,
    delete_machine,
    delete_network,
    execute,
    list_machines,
    wait_ready,
)

_STACK = "bench"
_MUNGED = ("/usr/sbin/munged", "--foreground", "--num-threads=2")
#: As the nodes of clusters have it.
_SSHD = """\
test -e /etc/ssh/host_key || ssh-keygen -q -t ed25519 -N '' -C '' -f /etc/ssh/host_key
exec /usr/sbin/sshd -D -e -h /etc/ssh/host_key
"""
_SLURM_CONF = """
ClusterName=bench
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmctldParameters=enable_configless
SlurmdParameters=config_overrides
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/var/spool/slurmctld/pid
SlurmdPidFile=/run/slurmd.pid
MaxNodeCount=1024
TreeWidth=65533
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
PartitionName=all Nodes=ALL Default=YES State=UP
"""


@contextmanager
def timed(what: str, figures: dict[str, float]) -> Iterator[None]:
    """Keep how long the block took, in seconds."""
    start = time.perf_counter()
    yield
    figures[what] = time.perf_counter() - start


def make_image(root: Path) -> None:
    """The bones of a root; /usr is the host's."""
    root.chmod(0o755)
    for name in ("etc", "proc", "root", "run", "sys", "tmp", "usr", "var"):
        (root / name).mkdir()
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(f"usr/{name}")
    for name in ("passwd", "group", "ld.so.cache", "nsswitch.conf"):
        shutil.copy(f"/etc/{name}", root / "etc")
    shutil.copytree("/etc/alternatives", root / "etc" / "alternatives", symlinks=True)


def machine(number: int, image: Path) -> MachineSpec:
    """Number 1 is the controller's."""
    high, low = divmod(number, 256)
    return MachineSpec(
        stack=_STACK,
        name=f"std-{number}",
        network="net",
        address=f"10.77.{high}.{low}",
        mac=f"02:00:0a:4d:{high:02x}:{low:02x}",
        image=str(image),
        cpus=1,
        memory_mib=512,
        mounts=() if _is_whole(image) else (Mount("/usr", "/usr"),),
    )


def _is_whole(image: Path) -> bool:
    """Whether it is a golden image, and not one of `make_image`."""
    return (image / "usr" / "sbin" / "slurmd").exists()


def slurm_parts(key: str) -> tuple[tuple[File[str], ...], tuple[Folder, ...], Service]:
    """What controller and nodes have in common."""
    folders = [
        Folder(path, "0755", "munge", "munge") for path in ("/run/munge", "/var/log/munge", "/var/lib/munge")
    ]
    munge_key = File("/etc/munge/munge.key", key, "0400", "munge", "munge", is_base64=True)
    folders.append(Folder("/etc/munge", "0700", "munge", "munge"))
    munged = Service("munged", _MUNGED, user="munge", ready="unix:/run/munge/munge.socket.2")
    return (munge_key,), tuple(folders), munged


def controller(image: Path, key: str) -> MachineSpec:
    """The machine with slurmctld."""
    files, folders, munged = slurm_parts(key)
    slurmctld = Service("slurmctld", ("/usr/sbin/slurmctld", "-D"), user="slurm", ready="tcp:6817")
    return replace(
        machine(1, image),
        name="ctl",
        memory_mib=4096,
        cpus=2,
        services=(munged, slurmctld),
        files=(
            *files,
            File("/etc/slurm/slurm.conf", _SLURM_CONF),
            File(
                "/etc/slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n"
            ),  # which nobody uses here, on any machine
        ),
        folders=(*folders, Folder("/var/spool/slurmctld", "0700", "slurm", "slurm")),
    )


def node(number: int, image: Path, key: str) -> MachineSpec:
    """A machine with slurmd, under a slot's name."""
    files, folders, munged = slurm_parts(key)
    argv = ("/usr/sbin/slurmd", "-D", "-b", "-Z", "--conf-server", "ctl", "--conf", "CPUs=1 RealMemory=500")
    slurmd = Service("slurmd", argv, ready="tcp:6818")
    sshd = (Service("sshd", ("/bin/sh", "-ec", _SSHD), ready="tcp:22"),) if _is_whole(image) else ()
    return replace(
        machine(number, image),
        services=(munged, slurmd, *sshd),
        files=files,
        folders=(*folders, Folder("/var/spool/slurmd"), Folder("/var/log/slurm"), Folder("/run/sshd")),
    )


def idle_nodes(data: Path) -> int:
    """How many nodes Slurm says are idle."""
    ended = execute(data, _STACK, "ctl", ["sinfo", "-h", "-t", "idle", "-o", "%D"], timeout_s=30)
    return sum(int(line) for line in ended.stdout.split())


def measure(data: Path, image: Path, size: int, with_slurm: bool) -> dict[str, float]:
    """Seconds of each phase, and MiB in use per machine."""
    figures: dict[str, float] = {}
    key = base64.b64encode(secrets.token_bytes(1024)).decode()
    with timed("network", figures):
        create_network(data, NetworkSpec(_STACK, "net", "10.77.0.0/16"))
    if with_slurm:
        with timed("controller", figures):
            create_machine(data, controller(image, key))
            wait_ready(data, _STACK, "ctl", 60)
        slots = f"nodename=std-[2-{size + 1}] state=FUTURE cpus=1 realmemory=500"
        said = execute(data, _STACK, "ctl", ["scontrol", "create", *slots.split()], timeout_s=30)
        assert said.code == 0, said
    make: Callable[[int], MachineSpec] = lambda number: (  # noqa: E731
        node(number, image, key) if with_slurm else machine(number, image)
    )
    specs = [make(number) for number in range(2, size + 2)]
    free, before = _available_mib(), _cpu_s()
    with ThreadPoolExecutor(16) as pool:
        start = time.perf_counter()
        with timed("create", figures):
            list(pool.map(lambda spec: create_machine(data, spec), specs))
        if with_slurm:
            while idle_nodes(data) < size:
                assert time.perf_counter() - start < 300, "nodes do not become idle"
                time.sleep(0.02)
            figures["idle"] = time.perf_counter() - start
        figures["own cpu"] = _cpu_s() - before
        figures["mib each"] = (free - _available_mib()) / size
        with timed("create again", figures):
            list(pool.map(lambda spec: create_machine(data, spec), specs))
        with timed("list", figures):
            list_machines(data, _STACK)
        with timed("delete", figures):
            list(pool.map(lambda spec: delete_machine(data, _STACK, spec.name), specs))
    return figures


def _available_mib() -> float:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if "MemAvailable" in line)
    return int(line.split()[1]) / 1024


def _cpu_s() -> float:
    mine, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return mine.ru_utime + mine.ru_stime + children.ru_utime + children.ru_stime


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1,64")
    parser.add_argument("--slurm", action="store_true")
    parser.add_argument("--image", type=Path, help="a golden image's root: nodes then have an sshd, too")
    parser.add_argument(
        "--data", type=Path, help="where the data folder is made; default: the temporary folder"
    )
    wanted = parser.parse_args()
    if os.geteuid():
        sys.exit("bench/machines.py needs root: run it with sudo")
    with tempfile.TemporaryDirectory(dir=wanted.data) as folder:
        data, image = Path(folder) / "data", wanted.image or Path(folder) / "image"
        if wanted.image is None:
            image.mkdir()
            make_image(image)
        for size in map(int, wanted.sizes.split(",")):
            try:
                figures = measure(data, image, size, wanted.slurm)
            finally:
                for left in list_machines(data, _STACK):
                    delete_machine(data, _STACK, left.name)
                delete_network(data, _STACK, "net")
            print(size, "  ".join(f"{name} {value:.3f}" for name, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()
