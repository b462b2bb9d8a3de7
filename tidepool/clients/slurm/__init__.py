"""The only code that talks to Slurm: one client with typed answers and typed errors.

    with Slurm(Here({"SLURM_CONF": "/srv/physics/slurm.conf"})) as slurm:
        waiting = slurm.jobs({JobState.PENDING})
        slurm.drain("cpu-[1-4]", "idle for 10 minutes")

`contract` says what a client can do; `errors` what can go wrong.
"""

from tidepool.clients.errors import TimedOut as TimedOut
from tidepool.clients.errors import Unreachable as Unreachable
from tidepool.clients.here import Here as Here
from tidepool.clients.namespaces import InNamespaces as InNamespaces
from tidepool.clients.slurm.client import Slurm as Slurm
from tidepool.clients.slurm.contract import Controller as Controller
from tidepool.clients.slurm.contract import SlurmClient as SlurmClient
from tidepool.clients.slurm.contract import SlurmReader as SlurmReader
from tidepool.clients.slurm.contract import Submitted as Submitted
from tidepool.clients.slurm.errors import ControllerDown as ControllerDown
from tidepool.clients.slurm.errors import DatabaseDown as DatabaseDown
from tidepool.clients.slurm.errors import Malformed as Malformed
from tidepool.clients.slurm.errors import NotFound as NotFound
from tidepool.clients.slurm.errors import PermissionDenied as PermissionDenied
from tidepool.clients.slurm.errors import Refused as Refused
from tidepool.clients.slurm.errors import SlurmError as SlurmError
from tidepool.clients.slurm.job import Job as Job
from tidepool.clients.slurm.job import JobState as JobState
from tidepool.clients.slurm.node import Node as Node
from tidepool.clients.slurm.node import NodeBase as NodeBase
from tidepool.clients.slurm.node import NodeFlag as NodeFlag
from tidepool.clients.slurm.node import NodeState as NodeState
from tidepool.clients.slurm.node import Reason as Reason
from tidepool.clients.slurm.partition import Partition as Partition
from tidepool.clients.slurm.partition import PartitionState as PartitionState
from tidepool.clients.slurm.request import JobRequest as JobRequest
from tidepool.clients.slurm.request import ReservationRequest as ReservationRequest
from tidepool.clients.slurm.request import Slots as Slots
from tidepool.clients.slurm.reservation import Reservation as Reservation
from tidepool.clients.transport import Completed as Completed
from tidepool.clients.transport import Transport as Transport
