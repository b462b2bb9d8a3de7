"""A machine of libvirt that is made anew from another image: its disk is another one of the same name.

The domain, its address and its seed stay what they are. Pulumi's state has of the disk what the plugin reads of it, which is its
name, its size and its format: none of that changes, so no `up` or refresh takes another image for a difference. What the disk
stands on is asked of the disk.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from tidepool.cluster.roles import Role
from tidepool.infrastructures.libvirt.ask import Said, Virsh, done, kinds_of_failures, virsh

_FORMAT: Final = "qcow2"
#: What says so was done already, or is so: a command that was cut off is given again.
_NO_DISK: Final = "Storage volume not found"
_OFF: Final = "domain is not running"
_ON: Final = "already active"


def imaging_of(said: Mapping[str, Any], _data: Path) -> DiskImaging:
    """The machine of which `tidepool.infrastructures.libvirt.graph` said this."""
    return DiskImaging(
        said["uri"], said["domain"], said["pool"], said["volume"], int(said["bytes"]), said["images"]
    )


@dataclass(frozen=True, slots=True)
class DiskImaging:
    """`tidepool.infrastructures.imaging.Imaging` of ``domain`` on the host of ``uri``.

    Its disk is ``volume`` of ``pool``, of so many ``bytes``; ``images`` are volumes of the same pool, by role.
    """

    uri: str
    domain: str
    pool: str
    volume: str
    bytes: int
    images: Mapping[Role, str]
    virsh: Virsh = virsh

    def imaged(self) -> frozenset[Role]:
        if (disk := self._disk()) is None:
            return frozenset()
        path = ET.fromstring(disk).findtext("backingStore/path")  # noqa: S314 - said by a libvirtd
        under = PurePosixPath(path or "").name
        return frozenset(role for role, image in self.images.items() if image == under)

    def is_blank(self) -> bool:
        return self._disk() is None

    def image(self, role: Role) -> None:
        self._run("destroy", self.domain, unless=_OFF)
        # By one program, which goes on where we are killed: a refresh would take a machine without a disk for none.
        self._run(
            f"vol-delete --pool {self.pool} {self.volume}; vol-create-as {self.pool} {self.volume} {self.bytes}B "
            f"--format {_FORMAT} --backing-vol {self.images[role]} --backing-vol-format {_FORMAT}"
        )
        self._run("start", self.domain, unless=_ON)

    def _disk(self) -> str | None:
        """Return what libvirt says of its disk; None where there is none, as where an `image` was cut off."""
        said = self._run("vol-dumpxml", "--pool", self.pool, self.volume, unless=_NO_DISK)
        return said.stdout if said.returncode == 0 else None

    def _run(self, *words: str, unless: str = "") -> Said:
        with kinds_of_failures():
            return done(self.virsh, self.uri, *words, unless=unless)
