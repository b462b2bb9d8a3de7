"""A stack for tests, and the count of what is left of one."""

from __future__ import annotations

import glob
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidepool.cluster.boot import Mount, Service
from tidepool.infrastructures.local.kernel import (
    Machine,
    MachineSpec,
    Network,
    NetworkSpec,
    create_machine,
    create_network,
    delete_machine,
    delete_network,
    execute,
    list_machines,
    list_networks,
    read_machine,
)
from tidepool.infrastructures.local.kernel.entry import Ended
from tidepool.infrastructures.local.kernel.layout import cgroup_of

CIDR = "10.77.0.0/16"
PYTHON = "/usr/bin/python3"
#: Answers every connection with its machine's name and stack.
ANSWERING = (
    "import socket, sys\n"
    "server = socket.create_server(('0.0.0.0', 7000))\n"
    "while True:\n"
    "    caller, _ = server.accept()\n"
    "    caller.sendall(sys.argv[1].encode())\n"
    "    caller.close()\n"
)
_ASKING = (
    "import socket, sys\n"
    "with socket.create_connection((sys.argv[1], 7000), timeout=float(sys.argv[2])) as answer:\n"
    "    print(answer.recv(100).decode())\n"
)


@dataclass(frozen=True, slots=True)
class Stack:
    """What one department has on this machine."""

    data: Path
    name: str
    image: Path

    def network(self) -> Network:
        return create_network(self.data, NetworkSpec(self.name, "net", CIDR))

    def spec(
        self, number: int = 1, *services: Service, memory_mib: int = 64, cpus: float = 1.0
    ) -> MachineSpec:
        return MachineSpec(
            stack=self.name,
            name=f"cpu-{number}",
            network="net",
            address=f"10.77.0.{10 + number}",
            mac=f"02:00:0a:4d:00:{10 + number:02x}",
            image=str(self.image),
            cpus=cpus,
            memory_mib=memory_mib,
            services=services,
            mounts=(Mount("/usr", "/usr"),),
        )

    def answering(self, number: int = 1) -> MachineSpec:
        """One that says who it is to whoever connects to port 7000."""
        argv = (PYTHON, "-c", ANSWERING, f"cpu-{number} of {self.name}")
        return self.spec(number, Service("answering", argv, ready="tcp:7000"))

    def create(self, spec: MachineSpec) -> Machine:
        return create_machine(self.data, spec)

    def read(self, name: str = "cpu-1") -> Machine:
        machine = read_machine(self.data, self.name, name)
        assert machine is not None
        return machine

    def run(self, *argv: str, on: str = "cpu-1", timeout_s: float = 20.0) -> Ended:
        return execute(self.data, self.name, on, argv, timeout_s=timeout_s)

    def ask(self, address: str, on: str, timeout_s: float = 5.0) -> str:
        """What the machine at an address says to one that asks."""
        ended = self.run(PYTHON, "-c", _ASKING, address, str(timeout_s), on=on)
        return ended.stdout.strip() or ended.stderr.strip().splitlines()[-1]

    def delete_all(self) -> None:
        for machine in list_machines(self.data, self.name):
            delete_machine(self.data, self.name, machine.name)
        for network in list_networks(self.data, self.name):
            delete_network(self.data, self.name, network.name)


def kill_hard(pid: int) -> None:
    """Kill -9, and wait for the end."""
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        assert select.select([descriptor], [], [], 10)[0]
    finally:
        os.close(descriptor)


def left_of(stack: Stack) -> list[str]:
    """Files, control groups, processes, mounts and interfaces of a stack; interfaces of the host that are ours."""
    return [
        *(str(path) for path in stack.data.glob(f"{stack.name}*")),
        *control_groups(_group(stack)),
        *_processes(stack),
        *(line for line in Path("/proc/self/mountinfo").read_text().splitlines() if _folder(stack) in line),
        *(
            each
            for each in _interfaces()
            if each == "switch" or (each.startswith("p") and each[1:].isdecimal())
        ),
    ]


def _folder(stack: Stack) -> str:
    return f"{stack.data.resolve()}/{stack.name}/"


def _group(stack: Stack) -> str:
    return cgroup_of(stack.data, stack.name, "machines").removesuffix("/machines")


def control_groups(pattern: str) -> list[str]:
    """Those of all hierarchies; other tests make and remove theirs meanwhile, which only this glob bears with."""
    return [*glob.glob(f"/sys/fs/cgroup/{pattern}"), *glob.glob(f"/sys/fs/cgroup/*/{pattern}")]  # noqa: PTH207


def _processes(stack: Stack) -> Iterator[str]:
    """Those that have something of the stack mounted, which all in its machines have, or in a control group."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "mountinfo").read_text() + (folder / "cgroup").read_text()
        except (FileNotFoundError, ProcessLookupError, OSError):
            continue
        if _folder(stack) in told or _group(stack) in told:
            yield f"process {folder.name}"


def _interfaces() -> list[str]:
    done = subprocess.run(["ip", "-json", "link"], capture_output=True, text=True, check=True, timeout=10)
    return [link["ifname"] for link in json.loads(done.stdout)]


def run_python(code: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A process of its own, as a provider is one."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=check)
