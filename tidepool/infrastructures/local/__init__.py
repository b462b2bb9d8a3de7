"""This machine: networks and machines made of the kernel's namespaces."""

from tidepool.infrastructures.registry import Descriptor

INFRASTRUCTURE = Descriptor(
    name="local",
    graph="tidepool.infrastructures.local.graph:make",
    machines="tidepool.infrastructures.local.machines:machines_of",
    failures="tidepool.infrastructures.local.machines:kind_of",
    checks="tidepool.infrastructures.local.checks:checks_of",
    types=("tidepool:local:Machine",),
    own_kernel=False,
    kinds={
        "tidepool:local:Network": "tidepool.infrastructures.local.kinds:NetworkKind",
        "tidepool:local:Volume": "tidepool.infrastructures.local.kinds:VolumeKind",
        "tidepool:local:Boot": "tidepool.infrastructures.local.boots:BootKind",
        "tidepool:local:Machine": "tidepool.infrastructures.local.kinds:MachineKind",
    },
)
