"""The only code that talks to Slurm: one client with typed answers and typed errors.

    with Slurm(Here({"SLURM_CONF": "/srv/physics/slurm.conf"})) as slurm:
        waiting = slurm.jobs({JobState.PENDING})
        slurm.drain("cpu-[1-4]", "idle for 10 minutes")

`contract` says what a client can do; `errors` what can go wrong.
"""

from tidepool.slurm.accounting import Accounting as Accounting
from tidepool.slurm.client import Slurm as Slurm
from tidepool.slurm.contract import Controller as Controller
from tidepool.slurm.contract import SlurmClient as SlurmClient
from tidepool.slurm.contract import SlurmReader as SlurmReader
from tidepool.slurm.contract import Submitted as Submitted
from tidepool.slurm.errors import ControllerDown as ControllerDown
from tidepool.slurm.errors import DatabaseDown as DatabaseDown
from tidepool.slurm.errors import Malformed as Malformed
from tidepool.slurm.errors import NotFound as NotFound
from tidepool.slurm.errors import PermissionDenied as PermissionDenied
from tidepool.slurm.errors import Refused as Refused
from tidepool.slurm.errors import SlurmError as SlurmError
from tidepool.slurm.errors import TimedOut as TimedOut
from tidepool.slurm.errors import Unreachable as Unreachable
from tidepool.slurm.errors import Unsupported as Unsupported
from tidepool.slurm.here import Here as Here
from tidepool.slurm.job import Job as Job
from tidepool.slurm.job import JobState as JobState
from tidepool.slurm.namespaces import InNamespaces as InNamespaces
from tidepool.slurm.node import Node as Node
from tidepool.slurm.node import NodeBase as NodeBase
from tidepool.slurm.node import NodeFlag as NodeFlag
from tidepool.slurm.node import NodeState as NodeState
from tidepool.slurm.node import Reason as Reason
from tidepool.slurm.partition import Partition as Partition
from tidepool.slurm.partition import PartitionState as PartitionState
from tidepool.slurm.request import JobRequest as JobRequest
from tidepool.slurm.request import ReservationRequest as ReservationRequest
from tidepool.slurm.request import Slots as Slots
from tidepool.slurm.reservation import Reservation as Reservation
from tidepool.slurm.transport import Completed as Completed
from tidepool.slurm.transport import Transport as Transport
