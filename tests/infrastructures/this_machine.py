"""This machine as an infrastructure of the contract: what is found and deleted is the package's, and here it is made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidepool.cluster import addresses
from tidepool.cluster.boot import Mount
from tidepool.infrastructures import Machine
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local import machines as this_machine
from tidepool.simulation.machines import MachineRequest


@dataclass(frozen=True, slots=True)
class ThisMachine(this_machine.ThisMachine):
    """Machines over the root ``image``, which needs the host's /usr."""

    image: Path = Path("/")

    def create(self, request: MachineRequest) -> Machine:
        spec = kernel.MachineSpec(
            stack=request.key.stack,
            name=request.key.node,
            network="net",
            address=str(request.address),
            mac=addresses.mac(request.address),
            image=str(self.image),
            cpus=request.cpus,
            memory_mib=request.memory_mib,
            mounts=(Mount("/usr", "/usr"),),
        )
        with this_machine.kinds_of_failures():
            kernel.create_machine(self.data, spec)
        made = self.read(request.key)
        assert made is not None
        return made
