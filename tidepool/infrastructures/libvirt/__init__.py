"""Hosts that run libvirt: what may be asked of them, which of it each machine gets, and whether they have it.

Nothing here makes anything: machines are made by the resources of `tidepool.infrastructures.libvirt.graph`. Hosts are
asked by `tidepool.infrastructures.libvirt.ask` alone.
"""

from tidepool.infrastructures.registry import Descriptor, Package

INFRASTRUCTURE = Descriptor(
    name="libvirt",
    graph="tidepool.infrastructures.libvirt.graph:make",
    machines="tidepool.infrastructures.libvirt.machines:machines_of",
    failures="tidepool.infrastructures.libvirt.ask:kind_of",
    checks="tidepool.infrastructures.libvirt.preflight:checks_of",
    preflight="tidepool.infrastructures.libvirt.preflight:PREFLIGHT",
    imaging="tidepool.infrastructures.libvirt.imaging:imaging_of",
    suspension="tidepool.infrastructures.libvirt.suspension:suspension_of",
    types=("libvirt:index/domain:Domain", "libvirt:index/volume:Volume", "tidepool:ssh:Machine"),
    kinds={"tidepool:libvirt:NetworkFilter": "tidepool.infrastructures.libvirt.kinds:NetworkFilterKind"},
    machine_id="id",
    image="libvirt:index/volume:Volume#baseVolumeName",
    package=Package("pulumi-libvirt", "0.5.4", plugin="libvirt"),
)
