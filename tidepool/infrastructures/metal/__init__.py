"""Bare metal: hosts by Redfish, claimed by their AssetTags, booted into memory from the stack's own boot service.

BMCs are asked, and told, by `tidepool.infrastructures.metal.redfish` alone, which alone imports `sushy`.
"""

from typing import Final

from tidepool.infrastructures.registry import Descriptor, Package

_KINDS: Final = "tidepool.infrastructures.metal.kinds:Metal"
PACKAGE: Final = Package("sushy", "5.14.0")

INFRASTRUCTURE = Descriptor(
    name="metal",
    graph="tidepool.infrastructures.metal.graph:make",
    machines="tidepool.infrastructures.metal.machines:machines_of",
    failures="tidepool.infrastructures.metal.redfish:kind_of",
    checks="tidepool.infrastructures.metal.preflight:checks_of",
    preflight="tidepool.infrastructures.metal.preflight:PREFLIGHT",
    imaging="tidepool.infrastructures.metal.imaging:imaging_of",
    types=("tidepool:metal:Machine", "tidepool:ssh:Machine"),
    machine_id="id",
    kinds={
        "tidepool:metal:Boot": "tidepool.infrastructures.boot_media.kinds:MetalBootKind",
        "tidepool:metal:Machine": f"{_KINDS}MachineKind",
        "tidepool:metal:Site": f"{_KINDS}SiteKind",
    },
    package=PACKAGE,
)
