"""An infrastructure for tests, as somebody else would write one: machines are JSON files in a folder. Only this folder knows it."""

from tidepool.infrastructures.registry import Descriptor

INFRASTRUCTURE = Descriptor(
    name="toy",
    graph="tests.infrastructures.toy.graph:Toy.of",
    machines="tests.infrastructures.toy.machines:ToyMachines.of",
    failures="tests.infrastructures.toy.machines:failure_kind",
    checks="tests.infrastructures.toy.machines:checks_of",
    types=("tidepool:toy:Machine",),
    machine_id="number",
    kinds={"tidepool:toy:Machine": "tests.infrastructures.toy.provider:ToyMachineKind"},
)
