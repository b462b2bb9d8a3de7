"""Machines, wherever they come from: what each infrastructure promises."""

from tidepool.infrastructures.machines import Infrastructure as Infrastructure
from tidepool.infrastructures.machines import Machine as Machine
from tidepool.infrastructures.machines import MachineKey as MachineKey
