"""Machines, wherever they come from: what each infrastructure promises, and a fake that keeps the promises."""

from tidepool.infrastructure.contract import Infrastructure as Infrastructure
from tidepool.infrastructure.contract import InfrastructureError as InfrastructureError
from tidepool.infrastructure.contract import InsufficientCapacity as InsufficientCapacity
from tidepool.infrastructure.contract import Machine as Machine
from tidepool.infrastructure.contract import MachineKey as MachineKey
from tidepool.infrastructure.contract import MachineRequest as MachineRequest
from tidepool.infrastructure.contract import Permanent as Permanent
from tidepool.infrastructure.contract import Transient as Transient
from tidepool.infrastructure.fake import FakeInfrastructure as FakeInfrastructure
