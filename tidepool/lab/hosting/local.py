"""Machines of this kernel: processes of the host, with its clock, bound by their control groups."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidepool.clients.slurm import Transport
from tidepool.infrastructures.connection import InMachine
from tidepool.infrastructures.local import kernel
from tidepool.lab.errors import SchedulerFailed


@dataclass(frozen=True, slots=True)
class LocalHosting:
    """A `tidepool.lab.hosting.contract.Hosting`."""

    data: Path
    stack: str
    has_own_clocks: bool = False
    unbound: str = ""

    def way(self, machine: str) -> Transport:
        return InMachine(self.data, self.stack, machine)

    def kill(self, machine: str) -> None:
        found = kernel.read_machine(self.data, self.stack, machine)
        if found is None or found.pid is None:
            raise SchedulerFailed(f"machine {machine} was to die, and does not run")
        os.kill(found.pid, signal.SIGKILL)

    def start(self, machine: str) -> None:
        """Do nothing: an `up` boots what does not run."""

    def bind(self, machine: str) -> tuple[int, ...]:
        return kernel.bind_to_processors(self.data, self.stack, machine)

    def cpu_s(self) -> float:
        return kernel.cpu_seconds(self.data, self.stack)

    def processes(self) -> frozenset[int]:
        return kernel.all_processes(self.data, self.stack)

    def images(self) -> Mapping[str, str]:
        """Return by machine the digest of its image, which is the name of the folder that has its root."""
        found = {}
        for machine in kernel.list_machines(self.data, self.stack):
            root = Path(machine.image)
            found[machine.name] = root.parent.name if root.name == "root" else root.name
        return found
