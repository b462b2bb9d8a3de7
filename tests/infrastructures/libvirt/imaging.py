"""The contract of a machine of libvirt that is made anew from another image, whichever host it is on."""

from __future__ import annotations

from pathlib import Path

from tidepool.cluster.roles import Role
from tidepool.infrastructures.libvirt.ask import Virsh, output_of
from tidepool.infrastructures.libvirt.imaging import DiskImaging, imaging_of

POOL = "tidepool-dev"
IMAGES: dict[Role, str] = {"slurm": "old.qcow2", "kubernetes": "new.qcow2"}


def an_imaging(uri: str, virsh: Virsh) -> DiskImaging:
    """Of the domain `dev-cpu-1`."""
    said = {
        "kind": "libvirt",
        "uri": uri,
        "domain": "dev-cpu-1",
        "pool": POOL,
        "volume": "cpu-1.qcow2",
        "bytes": 1 << 26,
        "images": IMAGES,
    }
    found = imaging_of(said, Path("/data"))
    return DiskImaging(found.uri, found.domain, found.pool, found.volume, found.bytes, found.images, virsh)


def keeps_the_contract(imaging: DiskImaging) -> None:
    """The machine runs, and its disk is of Slurm's image."""
    virsh, uri = imaging.virsh, imaging.uri

    def uuid() -> str:
        text = output_of(virsh, uri, "dumpxml", imaging.domain)
        return text.partition("<uuid>")[2].partition("<")[0]

    def runs() -> bool:
        return "id=" in output_of(virsh, uri, "dumpxml", imaging.domain).partition(">")[0]

    was = uuid()

    def is_of(role: Role) -> bool:
        """The same machine runs, with a disk of that role's image alone."""
        return imaging.imaged() == {role} and runs() and uuid() == was

    assert is_of("slurm")
    imaging.image("kubernetes")
    assert is_of("kubernetes")
    # Done again, after one that was cut off: the machine is off.
    output_of(virsh, uri, "destroy", imaging.domain)
    assert not imaging.is_blank()
    imaging.image("kubernetes")
    assert is_of("kubernetes")
    # Or is without a disk.
    output_of(virsh, uri, "destroy", imaging.domain)
    output_of(virsh, uri, "vol-delete", "--pool", POOL, imaging.volume)
    assert imaging.imaged() == set()
    assert imaging.is_blank()
    imaging.image("slurm")
    assert is_of("slurm")
