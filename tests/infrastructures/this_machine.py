"""This machine as an infrastructure of the contract: what is found and deleted is the package's, and here it is made."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tidepool.cluster import addresses
from tidepool.cluster.failures import Permanent
from tidepool.infrastructures import Machine, MachineRequest
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local import machines as this_machine


@dataclass(frozen=True, slots=True)
class ThisMachine(this_machine.ThisMachine):
    """Machines over the root ``image``, which needs the host's /usr; each has its key in a file on its disk."""

    image: Path = Path("/")

    def create(self, request: MachineRequest) -> Machine:
        there = this_machine.key_on_disk(self.data, request.key.stack, request.key.node)
        if there not in (None, request.key):
            raise Permanent(f"{request.key} cannot be made: {there} is there; delete it first")
        spec = kernel.MachineSpec(
            stack=request.key.stack,
            name=request.key.node,
            network="net",
            address=str(request.address),
            mac=addresses.mac(request.address),
            image=str(self.image),
            cpus=request.cpus,
            memory_mib=request.memory_mib,
            files=(kernel.File(this_machine.KEY_FILE, json.dumps(asdict(request.key))),),
            mounts=(kernel.Mount("/usr", "/usr"),),
        )
        with this_machine.kinds_of_failures():
            return this_machine.told(kernel.create_machine(self.data, spec), request.key)
