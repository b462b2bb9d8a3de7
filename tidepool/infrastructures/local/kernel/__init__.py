"""This machine as an infrastructure: networks and machines made of the kernel's namespaces. Needs root.

The only code that touches this machine's kernel. What to make is a frozen specification; what there is, is read
from the kernel and the data folder, which every function is given. See ``docs/architecture.md``.
"""

from tidepool.infrastructures.local.kernel.confinement import may_close_devices as may_close_devices
from tidepool.infrastructures.local.kernel.confinement import unheld as unheld
from tidepool.infrastructures.local.kernel.confinement import version as version
from tidepool.infrastructures.local.kernel.entry import dial as dial
from tidepool.infrastructures.local.kernel.entry import enter_prefix as enter_prefix
from tidepool.infrastructures.local.kernel.entry import execute as execute
from tidepool.infrastructures.local.kernel.entry import network_prefix as network_prefix
from tidepool.infrastructures.local.kernel.errors import BadSpec as BadSpec
from tidepool.infrastructures.local.kernel.errors import BootFailed as BootFailed
from tidepool.infrastructures.local.kernel.errors import InUse as InUse
from tidepool.infrastructures.local.kernel.errors import Lack as Lack
from tidepool.infrastructures.local.kernel.errors import LocalError as LocalError
from tidepool.infrastructures.local.kernel.errors import NoSuchMachine as NoSuchMachine
from tidepool.infrastructures.local.kernel.errors import NoSuchNetwork as NoSuchNetwork
from tidepool.infrastructures.local.kernel.errors import TimedOut as TimedOut
from tidepool.infrastructures.local.kernel.lifeline import started_at as started_at
from tidepool.infrastructures.local.kernel.machine import Machine as Machine
from tidepool.infrastructures.local.kernel.machine import all_processes as all_processes
from tidepool.infrastructures.local.kernel.machine import bind_to_processors as bind_to_processors
from tidepool.infrastructures.local.kernel.machine import boot_log as boot_log
from tidepool.infrastructures.local.kernel.machine import cpu_seconds as cpu_seconds
from tidepool.infrastructures.local.kernel.machine import create_machine as create_machine
from tidepool.infrastructures.local.kernel.machine import delete_machine as delete_machine
from tidepool.infrastructures.local.kernel.machine import list_machines as list_machines
from tidepool.infrastructures.local.kernel.machine import processes as processes
from tidepool.infrastructures.local.kernel.machine import read_machine as read_machine
from tidepool.infrastructures.local.kernel.machine import stop_machine as stop_machine
from tidepool.infrastructures.local.kernel.machine import wait_ready as wait_ready
from tidepool.infrastructures.local.kernel.network import Network as Network
from tidepool.infrastructures.local.kernel.network import create_network as create_network
from tidepool.infrastructures.local.kernel.network import delete_network as delete_network
from tidepool.infrastructures.local.kernel.network import list_networks as list_networks
from tidepool.infrastructures.local.kernel.network import read_network as read_network
from tidepool.infrastructures.local.kernel.preflight import Plans as Plans
from tidepool.infrastructures.local.kernel.preflight import host_networks as host_networks
from tidepool.infrastructures.local.kernel.preflight import kubelets_at_most as kubelets_at_most
from tidepool.infrastructures.local.kernel.preflight import preflight as preflight
from tidepool.infrastructures.local.kernel.ruleset import Rules as Rules
from tidepool.infrastructures.local.kernel.spec import MachineSpec as MachineSpec
from tidepool.infrastructures.local.kernel.spec import NetworkSpec as NetworkSpec
from tidepool.infrastructures.local.kernel.uplink_lacks import uplink_lacks as uplink_lacks
