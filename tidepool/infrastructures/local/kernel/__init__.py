"""This machine as an infrastructure: networks and machines made of the kernel's namespaces. Needs root.

The only code that touches this machine's kernel. What to make is a frozen specification; what there is, is read
from the kernel and the data folder, which every function is given. See ``docs/architecture.md``.
"""

from tidepool.cluster.boot import Device, File, Folder, Mount, Service
from tidepool.infrastructures.local.kernel.entry import Ended, dial, enter_prefix, execute, network_prefix
from tidepool.infrastructures.local.kernel.errors import (
    BadSpec,
    BootFailed,
    InUse,
    LocalError,
    NoSuchMachine,
    NoSuchNetwork,
    TimedOut,
)
from tidepool.infrastructures.local.kernel.lifeline import started_at
from tidepool.infrastructures.local.kernel.machine import (
    Machine,
    MachineState,
    boot_log,
    create_machine,
    delete_machine,
    freeze_machine,
    list_machines,
    pull_plug,
    read_machine,
    stop_machine,
    thaw_machine,
    wait_ready,
)
from tidepool.infrastructures.local.kernel.network import (
    Network,
    create_network,
    delete_network,
    list_networks,
    read_network,
)
from tidepool.infrastructures.local.kernel.preflight import Lack, Plans, kubelets_at_most, preflight
from tidepool.infrastructures.local.kernel.record import ServiceState
from tidepool.infrastructures.local.kernel.spec import MachineSpec, NetworkSpec

__all__ = [
    "BadSpec",
    "BootFailed",
    "Device",
    "Ended",
    "File",
    "Folder",
    "InUse",
    "Lack",
    "LocalError",
    "Machine",
    "MachineSpec",
    "MachineState",
    "Mount",
    "Network",
    "NetworkSpec",
    "NoSuchMachine",
    "NoSuchNetwork",
    "Plans",
    "Service",
    "ServiceState",
    "TimedOut",
    "boot_log",
    "create_machine",
    "create_network",
    "delete_machine",
    "delete_network",
    "dial",
    "enter_prefix",
    "execute",
    "freeze_machine",
    "kubelets_at_most",
    "list_machines",
    "list_networks",
    "network_prefix",
    "preflight",
    "pull_plug",
    "read_machine",
    "read_network",
    "started_at",
    "stop_machine",
    "thaw_machine",
    "wait_ready",
]
