"""The only code that talks to Slurm: one client with typed answers and typed errors.

    with Slurm(Here({"SLURM_CONF": "/srv/physics/slurm.conf"})) as slurm:
        waiting = slurm.jobs({JobState.PENDING})
        slurm.drain("cpu-[1-4]", "idle for 10 minutes")

`contract` says what a client can do, and what can go wrong.
"""

from tidepool.clients.here import Here as Here
from tidepool.clients.slurm.client import Slurm as Slurm
from tidepool.clients.slurm.contract import Controller as Controller
from tidepool.clients.slurm.contract import ControllerDown as ControllerDown
from tidepool.clients.slurm.contract import DatabaseDown as DatabaseDown
from tidepool.clients.slurm.contract import Malformed as Malformed
from tidepool.clients.slurm.contract import NotFound as NotFound
from tidepool.clients.slurm.contract import PermissionDenied as PermissionDenied
from tidepool.clients.slurm.contract import Refused as Refused
from tidepool.clients.slurm.contract import SlurmClient as SlurmClient
from tidepool.clients.slurm.contract import SlurmError as SlurmError
from tidepool.clients.slurm.contract import Submitted as Submitted
from tidepool.clients.slurm.job import Job as Job
from tidepool.clients.slurm.job import JobState as JobState
from tidepool.clients.slurm.request import JobRequest as JobRequest
from tidepool.clients.slurm.request import Slots as Slots
from tidepool.clients.slurm.scontrol import Node as Node
from tidepool.clients.slurm.scontrol import NodeBase as NodeBase
from tidepool.clients.slurm.scontrol import NodeFlag as NodeFlag
from tidepool.clients.slurm.scontrol import NodeState as NodeState
from tidepool.clients.slurm.scontrol import Partition as Partition
from tidepool.clients.slurm.scontrol import PartitionState as PartitionState
from tidepool.clients.slurm.scontrol import Reason as Reason
from tidepool.clients.slurm.scontrol import Reservation as Reservation
from tidepool.clients.transport import Completed as Completed
from tidepool.clients.transport import TimedOut as TimedOut
from tidepool.clients.transport import Transport as Transport
from tidepool.clients.transport import Unreachable as Unreachable
