"""Nodes of a site's Ironic: claimed by their instance UUID, deployed from the stack's own boot service, given back to be cleaned.

Ironic is asked, and told, by `tidepool.infrastructures.ironic.api` alone, which alone imports `openstack`.
"""

from typing import Final

from tidepool.infrastructures.registry import Descriptor, Package

_KINDS: Final = "tidepool.infrastructures.ironic.kinds:Ironic"
PACKAGE: Final = Package("openstacksdk", "4.22.0")

INFRASTRUCTURE = Descriptor(
    name="ironic",
    graph="tidepool.infrastructures.ironic.graph:make",
    machines="tidepool.infrastructures.ironic.machines:machines_of",
    failures="tidepool.infrastructures.ironic.api:kind_of",
    checks="tidepool.infrastructures.ironic.preflight:checks_of",
    preflight="tidepool.infrastructures.ironic.preflight:PREFLIGHT",
    imaging="tidepool.infrastructures.ironic.imaging:imaging_of",
    types=("tidepool:ironic:Machine", "tidepool:ssh:Machine"),
    machine_id="id",
    kinds={
        "tidepool:ironic:Host": f"{_KINDS}HostKind",
        "tidepool:ironic:Machine": f"{_KINDS}MachineKind",
    },
    package=PACKAGE,
)
