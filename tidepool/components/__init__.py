"""What a stack is made of. Components take typed arguments, read no configuration, and register what they give.

infrastructure = Local(stack=pulumi.get_stack())
network = infrastructure.network("net", spec.network)
image = GoldenImage("slurm", recipe="images/debian-12", playbooks="playbooks").digest
controller = SlurmController(spec.name, SlurmControllerArgs(spec, infrastructure, network, image))
for fleet in spec.fleets:
    nodes = node_set(fleet, last=None)  # tidepool.cluster.node_set
    ComputeFleet(fleet.name, ComputeFleetArgs(fleet, nodes, controller, infrastructure, network, image))
"""

from tidepool.components.asked import asked as asked
from tidepool.components.compute_fleet import ComputeFleet as ComputeFleet
from tidepool.components.compute_fleet import ComputeFleetArgs as ComputeFleetArgs
from tidepool.components.golden_image import GoldenImage as GoldenImage
from tidepool.components.infrastructure.choice import infrastructure_of as infrastructure_of
from tidepool.components.infrastructure.local import Local as Local
from tidepool.components.last_outputs import last_outputs as last_outputs
from tidepool.components.slurm_controller import SlurmController as SlurmController
from tidepool.components.slurm_controller import SlurmControllerArgs as SlurmControllerArgs
