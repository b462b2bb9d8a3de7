"""A real Slurm for tests: munged, slurmctld and slurmd as ordinary processes in namespaces of their own.

They listen on the loopback, on ports that the kernel chose, with files and a munge key in a private folder. All are
in one PID namespace: when its first process is killed, nothing is left.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

PROGRAMS = ("slurmctld", "slurmd", "munged", "squeue", "scontrol", "unshare", "nsenter", "setpriv")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_T = TypeVar("_T")

#: The first process of new namespaces, which ends with the test, however that ends.
ALONE = [
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "sleep",
    "infinity",
]

CONF = """\
ClusterName=contract
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
MailProg=/bin/true
MpiDefault=none
RebootProgram=/bin/true
ReturnToService=2
SlurmdTimeout=6
MessageTimeout=2
KillWait=1
MaxNodeCount=2048
TreeWidth=65533
CommunicationParameters=NoInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
DebugFlags=NO_CONF_HASH
Licenses=matlab:3
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,sched_interval=1,bf_interval=1,bf_resolution=1
PartitionName=all Nodes=ALL Default=YES State=UP
PartitionName=hidden Nodes=ALL Hidden=YES MaxTime=1:00:00 State=DOWN
"""


#: Makes an image's root, with a layer to write in, the root of new namespaces: all below the folder is there as well.
IN_ROOT = """\
set -e
root=$1 folder=$2
mkdir "$folder/upper" "$folder/work" "$folder/root"
mount -t overlay -o "lowerdir=$root,upperdir=$folder/upper,workdir=$folder/work" overlay "$folder/root"
cd "$folder/root"
touch etc/hosts
mount --rbind /dev dev
mount -t proc proc proc
mount -t tmpfs tmpfs tmp
mkdir -p ".$folder"
mount --bind "$folder" ".$folder"
pivot_root . mnt
umount --lazy /mnt
"""


def missing() -> str:
    """Why no Slurm can be started here; empty where it can."""
    if os.geteuid() != 0:
        return "namespaces need root"
    lacking = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    return (
        f"not installed: {', '.join(lacking)} (slurmctld slurmd slurm-client munge util-linux)"
        if lacking
        else ""
    )


def eventually(look: Callable[[], _T], wanted: Callable[[_T], bool], within_s: float = 30.0) -> _T:
    """What ``look`` gives once it is as ``wanted``; what Slurm takes its time for is waited for, and looked at ever more seldom."""
    began = time.monotonic()
    while True:
        seen = look()
        if wanted(seen):
            return seen
        waited_s = time.monotonic() - began
        assert waited_s < within_s, f"after {within_s:g} s still: {seen}"
        time.sleep(min(max(0.02, waited_s / 8), 0.5))


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        assert isinstance(port, int)
        return port


class RealSlurm:
    """The processes of one cluster, below ``folder``; of this machine's Slurm, or of that in the root of an image."""

    def __init__(
        self,
        folder: Path,
        conf: str = CONF,
        before: Mapping[str, Sequence[str]] = MappingProxyType({}),
        *,
        root: Path | None = None,
    ) -> None:
        self.folder = folder
        self._root = root
        self.conf = folder / "slurm.conf"
        self.ports = {"ctld_port": free_port(), "slurmd_port": free_port()}
        self.environment = {"SLURM_CONF": str(self.conf)}
        for name in ("state", "run"):
            (folder / name).mkdir()
        self.conf.write_text(conf.format(host=socket.gethostname(), folder=folder, **self.ports))
        (folder / "gres.conf").write_text("")
        # slurmd of 22.05 asks nobody for a group, as nothing is confined; later ones have to be told.
        (folder / "cgroup.conf").write_text("" if root is None else "CgroupPlugin=disabled\n")
        key = folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))
        self._leader = subprocess.Popen(ALONE, start_new_session=True, cwd="/")
        self.pid = child_of(self._leader.pid)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        shutil.copy("/etc/hosts", folder / "hosts")
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--"]
        if root is not None:
            subprocess.run([*enter, "sh", "-c", IN_ROOT, "sh", root, folder], check=True)
        subprocess.run([*enter, "mount", "--bind", str(folder / "hosts"), "/etc/hosts"], check=True)
        self._spawn(
            "munged",
            ["munged", "--foreground", "--force", "--num-threads=2", f"--key-file={key}"]
            + [
                f"--{what}={folder}/munge.{what.partition('-')[0]}"
                for what in ("socket", "pid-file", "log-file")
            ]
            + [f"--seed-file={folder}/munge.seed"],
        )
        eventually((folder / "munge.socket").exists, bool)
        for name, argv in before.items():
            self._spawn(name, argv)
            # slurmctld does not start without the database that it was told of.
            eventually((folder / f"{name}.out").read_text, lambda said: " started" in said)
        self.start_controller()

    @property
    def nodes_keep_their_addresses(self) -> bool:
        """Those that they were created with; else they cannot be told apart on the loopback."""
        return self._root is None

    def start_controller(self) -> None:
        """Start slurmctld, and wait until it answers."""
        self._spawn("slurmctld", ["slurmctld", "-D", "-f", str(self.conf)])
        eventually(lambda: self.command(["scontrol", "ping"]).returncode, lambda code: code == 0)

    def kill_controller(self) -> None:
        """As the out-of-memory killer would."""
        self._kill("slurmctld")

    def freeze_controller(self) -> None:
        """It hangs: its port is open, and nobody answers."""
        os.kill(self._inner("slurmctld"), signal.SIGSTOP)

    def thaw_controller(self) -> None:
        os.kill(self._inner("slurmctld"), signal.SIGCONT)
        # nsenter stops with the process that it waits for.
        os.kill(self._processes["slurmctld"].pid, signal.SIGCONT)

    def know(self, addresses: Mapping[str, str]) -> None:
        """Let these names be resolved to these addresses of the loopback."""
        with (self.folder / "hosts").open("a") as hosts:
            hosts.writelines(f"{address} {name}\n" for name, address in addresses.items())

    def boot(self, name: str) -> None:
        """Start the slurmd of a slot. It listens at its own address, which it knows by its host's name."""
        named = (
            "import os, socket, sys; socket.sethostname(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"
        )
        slurmd = ["slurmd", "-D", "-b", "-Z", "-N", name, "-f", str(self.conf)]
        self._spawn(f"slurmd {name}", ["unshare", "--uts", "python3", "-S", "-c", named, name, *slurmd])

    def kill(self, name: str) -> None:
        """Kill one of the daemons that were started before slurmctld."""
        self._kill(name)

    def unplug(self, name: str) -> None:
        """Kill the slurmd of a node."""
        self._kill(f"slurmd {name}")

    def unplug_all(self) -> None:
        for name in [name for name in self._processes if name.startswith("slurmd ")]:
            self._kill(name)

    def command(
        self, argv: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        # Commands are of the same release as the daemons.
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--"] if self._root else []
        return subprocess.run(
            [*enter, *argv],
            env={"PATH": PATH, **self.environment, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def log(self) -> str:
        return (self.folder / "slurmctld.log").read_text()

    def close(self) -> None:
        """Kill all of it, and wait until it is gone."""
        self._leader.kill()
        self._leader.wait()
        for process in self._processes.values():
            process.wait()

    def _spawn(self, name: str, argv: Sequence[str]) -> None:
        log = (self.folder / f"{name.replace(' ', '-')}.out").open("ab")
        with log:
            self._processes[name] = subprocess.Popen(
                ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--", *argv],
                env={"PATH": PATH, **self.environment},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        # One that ended by itself needs no more.
        if process.poll() is None:
            os.kill(child_of(process.pid), signal.SIGKILL)
        process.wait()

    def _inner(self, name: str) -> int:
        return child_of(self._processes[name].pid)


def child_of(pid: int) -> int:
    """The process that unshare or nsenter started in the new PID namespace, which is known here by this number."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return int(eventually(lambda: children.read_text().split(), bool)[0])
